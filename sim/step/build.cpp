#include "sim/step/build.hpp"

Build read_build(const std::string& id, const Settings& file, Reading& reading) {
  Section s(file, "build", reading);
  Build b;
  b.id = id;
  s.required<int>("schema", between(1, 1));
  s.required<std::string>("source");
  b.name = s.required<std::string>("name");
  b.engine = s.required<std::string>("engine");
  b.version = s.required<std::string>("version");
  b.architecture = s.required<std::string>("architecture");
  b.tables = s.required<std::string>("tables");
  b.note = s.optional<std::string>("note", "");
  if (const Settings* node = s.take_required("back_ends")) {
    Section k(*node, "build.back_ends", reading);
    b.back_ends = read_back_ends(k);
  }
  b.sparse_attention = s.required<bool>("sparse_attention");
  b.kv = parse_precision(s, "kv_cache", Precision::bf16);
  b.extra_memory = s.optional<Bytes>("extra_memory", Bytes(0), at_least(Bytes(0)));
  if (const Settings* node = s.take_required("graphs")) {
    Section g(*node, "build.graphs", reading);
    b.decode_graphs = g.required<bool>("decode");
    b.side_streams = g.required<bool>("side_streams");
  }
  if (const Settings* node = s.take_required("host")) {
    Section h(*node, "build.host", reading);
    b.dispatch = h.constant<Duration>("dispatch", std::nullopt, plausible_time());
    b.step_host = h.constant<Duration>("per_step", std::nullopt, plausible_time());
    b.sequence_host = h.constant<Duration>("per_sequence", std::nullopt, plausible_time());
  }
  return b;
}
