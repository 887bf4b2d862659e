#include "sim/step/build.hpp"

#include <fmt/format.h>

bool KnownDefect::covers(bool in_prefill, bool a16, std::int64_t batch, std::int64_t kv) const {
  return (!prefill || *prefill == in_prefill) && (!bf16_activations || *bf16_activations == a16) &&
         (!batch_min || batch >= *batch_min) && (!batch_max || batch <= *batch_max) &&
         (!kv_min || kv >= *kv_min) && (!kv_max || kv <= *kv_max);
}

std::string KnownDefect::range() const {
  std::string out = !prefill ? "any pass" : *prefill ? "prefill" : "decode";
  const auto add = [&](const char* of, const auto& least, const auto& most, const char* unit) {
    if (least && most && *least == *most)
      out += fmt::format("{} {} {}", of, grouped(*least), unit);
    else if (least && most)
      out += fmt::format("{} {} to {} {}", of, grouped(*least), grouped(*most), unit);
    else if (least)
      out += fmt::format("{} {} {} and more", of, grouped(*least), unit);
    else if (most)
      out += fmt::format("{} up to {} {}", of, grouped(*most), unit);
  };
  add(" of", batch_min, batch_max, "sequences");
  add(" at", kv_min, kv_max, "KV tokens");
  if (bf16_activations) out += *bf16_activations ? " with A16" : " with A4";
  return out;
}

namespace {

std::vector<KnownDefect> read_known_defects(const Settings* list, Reading& reading) {
  std::vector<KnownDefect> out;
  if (!list) return out;
  if (!list->is_sequence()) {
    reading.errors.error(list->where(), "known_defects must be a list",
                         "write '- {where: {batch_min: 16}, what: ..., source: ...}'");
    return out;
  }
  for (const Settings& item : list->items()) {
    Section s(item, "build.known_defects", reading);
    KnownDefect d;
    if (const Settings* node = s.take_required("where")) {
      Section w(*node, "build.known_defects.where", reading);
      const auto count = positive<std::int64_t>();
      if (w.has("pass")) d.prefill = w.word("pass", {"prefill", "decode"}) == "prefill";
      if (w.has("moe_activations"))
        d.bf16_activations = w.word("moe_activations", {"a4", "a16"}) == "a16";
      d.batch_min = w.maybe<std::int64_t>("batch_min", count);
      d.batch_max = w.maybe<std::int64_t>("batch_max", count);
      d.kv_min = w.maybe<std::int64_t>("kv_min", count);
      d.kv_max = w.maybe<std::int64_t>("kv_max", count);
    }
    d.what = s.required<std::string>("what");
    d.source = s.required<std::string>("source");
    out.push_back(std::move(d));
  }
  return out;
}

std::vector<PassResiduals::Band> read_bands(const Settings* list, Reading& reading) {
  std::vector<PassResiduals::Band> out;
  if (!list) return out;
  if (!list->is_sequence()) {
    reading.errors.error(list->where(), "residuals must be a list",
                         "write '- {batch_min: 33, batch_max: 64, time: 1.7 ms, basis: fitted}'");
    return out;
  }
  const auto count = positive<std::int64_t>();
  for (const Settings& item : list->items()) {
    Section s(item, "build.residuals", reading);
    PassResiduals::Band band;
    band.batch_min = s.required<std::int64_t>("batch_min", count);
    band.batch_max = s.required<std::int64_t>("batch_max", count);
    band.time = s.constant<Duration>("time", std::nullopt, plausible_time());
    if (s.has("per_sequence"))
      band.per_sequence = s.constant<Duration>("per_sequence", std::nullopt, plausible_time());
    if (band.batch_max < band.batch_min && band.batch_max > 0)
      s.error("batch_max", "batch_max is below batch_min");
    for (const auto& other : out)
      if (band.batch_min <= other.batch_max && other.batch_min <= band.batch_max)
        s.error("batch_min", "two residuals for the same batch", "let the bands not overlap");
    out.push_back(std::move(band));
  }
  return out;
}

}  // namespace

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
  b.tables_version = s.optional<std::string>("tables_version", b.version);
  b.note = s.optional<std::string>("note", "");
  if (const Settings* node = s.take_required("back_ends")) {
    Section k(*node, "build.back_ends", reading);
    b.back_ends = read_back_ends(k);
  }
  b.sparse_attention = s.required<bool>("sparse_attention");
  b.attention_writes_kv = s.optional<bool>("attention_writes_kv", false);
  b.kv = parse_precision(s, "kv_cache", Precision::bf16);
  b.bf16_activations = s.word("moe_activations", {"a4", "a16"}, "a4") == "a16";
  b.prefill_chunk = s.optional<int>("prefill_chunk", 0, between(0, 1 << 24));
  if (const Settings* node = s.take("indexer_layers")) {
    Section i(*node, "build.indexer_layers", reading);
    for (const auto& entry : node->entries())
      b.indexer_layers[entry.key] = i.required<int>(entry.key, between(0, 1024));
  }
  if (const Settings* node = s.take("collectives")) {
    Section c(*node, "build.collectives", reading);
    c.maybe<std::string>("source");
    b.all_reduce =
        read_all_reduce_policy(c.take("all_reduce"), "build.collectives.all_reduce", reading);
    if (c.has("nccl_channels"))
      b.nccl_channels = c.constant<int>("nccl_channels", std::nullopt, between(1, 64));
  }
  if (const Settings* node = s.take("attention")) {
    Section a(*node, "build.attention", reading);
    b.kv_tail = a.optional<double>("kv_tail", 1.0, between(0.0, 2.0));
    b.sums_prompts = a.word("prompts", {"each", "summed"}, "each") == "summed";
  }
  if (const Settings* node = s.take("fitted")) {
    Section f(*node, "build.fitted", reading);
    b.small_kernels = f.constant<Duration>("small_kernels", std::nullopt, plausible_time());
    b.moe_rate = f.constant<BytesPerSecond>("moe_rate", std::nullopt, plausible_bandwidth());
    b.fit_error = f.optional<double>("error", 0.0, between(0.0, 10.0));
  }
  if (s.has("kernel_scale"))
    b.residuals.kernel_scale = s.constant<double>("kernel_scale", std::nullopt, between(0.1, 10.0));
  b.residuals.bands = read_bands(s.take("residuals"), reading);
  b.known_defects = read_known_defects(s.take("known_defects"), reading);
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
    if (h.has("per_prefill_layer"))
      b.residuals.per_prefill_layer =
          h.constant<Duration>("per_prefill_layer", std::nullopt, plausible_time());
    if (h.has("cold_start"))
      b.cold_start = h.constant<Duration>("cold_start", std::nullopt,
                                          between(Duration(), Duration::from_seconds(100)));
  }
  return b;
}
