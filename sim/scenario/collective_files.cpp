#include "sim/scenario/collective_files.hpp"

#include <fmt/format.h>

#include "hardware/collective/kernels/kernel.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

// One table of a file.
MeasuredCurve read_curve(const Settings& node, const std::string& path, const std::string& file,
                         Reading& reading) {
  Section s(node, path, reading);
  MeasuredCurve out;
  parse_collective(s.word("op", collective_names()), out.op);
  auto kernels = Registry<CollectiveKernelFactory>::names();
  kernels.emplace_back("nccl");
  out.kernel = s.word("kernel", kernels, "nccl");
  out.ranks = s.required<int>("gpus", between(2, 1024));
  const auto version = s.maybe<std::string>("version").value_or("");
  out.source = fmt::format("{}{}{}", s.maybe<std::string>("source").value_or(file),
                           version.empty() ? "" : ", NCCL ", version);
  s.maybe<bool>("in_place");
  if (const Settings* env = s.take("env")) {
    // Other variables are part of the measurement; this one says which transport it was.
    const Settings* disabled = env->find("NCCL_P2P_DISABLE");
    if (disabled && disabled->text() == "1") out.transport = Transport::shm;
  }
  const std::string hint = "write 'points: [[4 KiB, 24 us], [64 KiB, 31 us]]'";
  const Settings* points = s.take_required("points");
  for (const Settings& point : points ? points->items() : std::vector<Settings>()) {
    const auto ends = point.items();
    const auto size = parse<Bytes>(ends.size() == 2 ? ends[0].text() : "");
    const auto time = parse<Duration>(ends.size() == 2 ? ends[1].text() : "");
    if (!size || !time || *size <= Bytes(0) || *time <= Duration())
      reading.errors.error(point.where(), "a point is a size and a time", hint);
    else if (!out.points.emplace(size->count(), *time).second)
      reading.errors.error(point.where(), fmt::format("{} stands here twice", text(*size)));
  }
  if (points && points->items().empty()) s.error("points", "there are no points", hint);
  return out;
}

void read_curves(const std::string& path, Reading& reading, std::vector<MeasuredCurve>& out) {
  const auto settings = load_yaml(path, {});
  if (!settings) return reading.errors.append(settings.error());
  Section s(*settings, "collectives file", reading);
  s.required<int>("schema", between(1, 1));
  const Settings* tables = s.take_required("collectives");
  if (tables && !tables->is_sequence()) s.error("collectives", "collectives must be a list");
  int number = 0;
  for (const Settings& item : tables ? tables->items() : std::vector<Settings>())
    out.push_back(read_curve(item, fmt::format("collectives.{}", number++), path, reading));
}

// The fitted sets answer with the measured times at their own sizes.
MeasuredCurve curve_of(const KernelSet& set, Collective op, const std::string& kernel) {
  MeasuredCurve out;
  out.op = op;
  out.kernel = kernel;
  out.ranks = std::stoi(set.words.at("num_gpus"));
  out.source = fmt::format("{} {}", set.engine, set.version);
  for (const double bytes : set.columns)
    if (bytes >= 1)
      out.points.emplace(static_cast<std::int64_t>(bytes),
                         Duration::from_us(set.predict(&bytes).us));
  return out;
}

std::string word(const KernelSet& set, const char* key) {
  const auto it = set.words.find(key);
  return it == set.words.end() ? "" : it->second;
}

void add_gpu_tables(const KernelTables& tables, std::vector<MeasuredCurve>& out) {
  for (const KernelSet& set : tables.sets()) {
    if (set.kernel_class == "nccl") {
      const std::string measured = word(set, "op_name");
      Collective op = Collective::all_reduce;
      if (word(set, "nccl_dtype") == "half" &&
          parse_collective(measured == "alltoall" ? "all_to_all" : measured, op))
        out.push_back(curve_of(set, op, "nccl"));
    } else if (set.kernel_class == "custom_all_reduce") {
      // Times of graphs: what the GPU takes. Eager ones hold the host's time.
      if (word(set, "kernel_source") == "SGLang_CustomAllReduce_graph")
        out.push_back(curve_of(set, Collective::all_reduce, "custom"));
    }
  }
}

}  // namespace

Expected<std::vector<MeasuredCurve>> load_collective_curves(const Machine& machine,
                                                            const GpuSpec& gpu) {
  std::vector<MeasuredCurve> out;
  Reading reading;
  for (const auto& [name, where] : machine.collectives) {
    if (name == "gpu_tables") {
      const auto tables = load_kernel_tables(gpu, gpu.id, {"nccl", "custom_all_reduce"});
      if (tables)
        add_gpu_tables(*tables, out);
      else
        reading.errors.append(tables.error());
      continue;
    }
    const auto path = find_data_file("hardware/tables/collectives", name, where);
    if (path)
      read_curves(*path, reading, out);
    else
      reading.errors.append(path.error());
  }
  if (!reading.errors.empty()) return tl::unexpected(reading.errors);
  return out;
}

Expected<std::unique_ptr<CollectivePricer>> make_collective_pricer(const Machine& machine,
                                                                   const Machine& base,
                                                                   const GpuSpec& gpu, int ranks,
                                                                   const AllReducePolicy& policy) {
  auto out = std::make_unique<CollectivePricer>(machine.topology, machine.interconnect, ranks,
                                                gpu.compute_capability, policy);
  if (base.collectives.empty() || ranks > base.gpu_count()) return out;
  const auto curves = load_collective_curves(base, gpu);
  if (!curves) return tl::unexpected(curves.error());
  out->anchor(
      *curves,
      CollectivePricer(base.topology, base.interconnect, ranks, gpu.compute_capability, policy),
      &base != &machine);
  return out;
}
