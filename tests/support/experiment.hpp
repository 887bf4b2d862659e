#pragma once

#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "sim/scenario/experiment.hpp"
#include "tests/support/hardware.hpp"

/// A scenario written in a test, ready to run; the test fails where it is none.
inline std::unique_ptr<Experiment> make_experiment(const std::string& text) {
  Scenario scenario;
  scenario.file = "test.yaml";
  scenario.tree = yaml(text);
  const auto inputs = resolve(scenario);
  if (!inputs) FAIL(inputs.error().render());
  auto made = Experiment::make(*inputs);
  if (!made) FAIL(made.error().render());
  return std::move(*made);
}
