#pragma once

#include "sim/report/run_report.hpp"
#include "sim/scenario/scenario.hpp"

/// How much of a report is wanted; each part costs more runs of the simulation.
struct PredictOptions {
  bool intervals = true;  // vary each uncertain constant up and down
  bool ceilings = true;
  bool what_ifs = true;
  bool requests = false;  // a record of each request, with the gaps between its tokens
};

/// Runs one scenario and reports on it.
Expected<RunReport> predict(const Scenario& scenario, const PredictOptions& options);

/// The values that a scenario resolves to, with the origin of each, without running it.
Expected<std::vector<ResolvedValue>> dry_run(const Scenario& scenario);
