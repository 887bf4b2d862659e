#include "calibrate/measure/nccl_topology.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "calibrate/measure/plugin.hpp"
#include "calibrate/measure/ranks.hpp"

namespace fs = std::filesystem;

std::string dump_nccl_topology(int gpus, const std::string& file) {
  const auto folders = plugin_folders();
  RankTeamOptions options;
  options.plugin = find_plugin("comm", folders);
  if (options.plugin.empty())
    return fmt::format("the plug-in comm is in none of {}", fmt::join(folders, ", "));
  options.ranks = gpus;
  // Rank 0 writes the file when the ranks have joined; its folder need not be ours.
  std::error_code code;
  const fs::path part = fs::absolute(file + ".part", code);
  fs::remove(part, code);
  options.environment["NCCL_TOPO_DUMP_FILE"] = part.string();

  CalibrationPoint p;
  p.kernel_class = "nccl";
  p.source = "nccl";
  p.words = {{"op_name", "all_reduce"}, {"nccl_dtype", "half"}, {"num_gpus", std::to_string(gpus)}};
  p.x[0] = p.bytes = 4096;
  p.pool_bytes = 2 * p.bytes;
  p.ranks = gpus;
  const auto joined = RankTeam(std::move(options)).prepare(p, p.source);
  // Ranks that did not come together may have been ended while one of them wrote.
  if (joined.state != PointState::ok) {
    fs::remove(part, code);
    return fmt::format("NCCL does not start: {}", joined.reason);
  }
  if (!fs::is_regular_file(part, code)) return fmt::format("NCCL wrote no '{}'", part.string());
  fs::rename(part, file, code);
  return code ? fmt::format("'{}' cannot be written: {}", file, code.message()) : "";
}
