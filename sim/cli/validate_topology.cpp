#include "sim/cli/validate_topology.hpp"

#include "sim/scenario/topology_rows.hpp"

Exit validate_topologies(const std::vector<std::string>& files, const std::string& format) {
  Diagnostics errors;
  TopologyReport report;
  if (files.empty())
    errors.error({}, "no files of measured transfers there",
                 "name a file or a folder that holds .yaml files");
  for (const auto& file : files) {
    const auto lines = score_topology_file(file);
    if (lines)
      report.lines.insert(report.lines.end(), lines->begin(), lines->end());
    else
      errors.append(lines.error());
  }
  if (!errors.empty()) return report_errors(errors);
  print_result(format == "json" ? topology_errors_to_json(report) : render_topology_errors(report));
  return report.missed() > 0 ? Exit::expectation_failed : Exit::fine;
}
