// The points that calibrate one model on one box. Sizes follow what a server asks for: GEMM rows
// and MoE tokens up to a prefill chunk, contexts to 128 Ki, batches to 256, messages to 256 MiB.
// Leaves out: expert parallelism, norms that quantise nothing, rotary embedding, sampling.

#include "calibrate/measure/plan.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "calibrate/measure/sampling.hpp"
#include "models/graph/graph.hpp"
#include "sim/base/assert.hpp"
#include "sim/base/json_text.hpp"
#include "sim/report/table.hpp"

namespace {

const std::map<std::string, PlanGrid>& grids() {
  static const auto doubled = [](double from, double to) {
    std::vector<double> out;
    for (double v = from; v <= to; v *= 2) out.push_back(v);
    return out;
  };
  static const std::map<std::string, PlanGrid> all{
      {"smoke",
       {{1, 8, 32, 128, 512, 2048},
        {512, 4096, 32768},
        {1, 8, 64},
        {4096, 262144, 16777216},
        {65536, 67108864},
        {1, 100},
        {},
        {},
        {"cublaslt"},
        {"nccl"}}},
      {"quick",
       {{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192},
        {128, 512, 2048, 8192, 32768, 131072},
        {1, 4, 16, 64, 256},
        {256, 2048, 16384, 131072, 1048576, 8388608, 67108864},
        {4096, 65536, 1048576, 67108864},
        {1, 10, 100},
        {1, 16, 64},
        {1, 64, 2048},
        {"cublaslt", "cublaslt_best"},
        {"nccl", "nccl_eager", "nccl NCCL_PROTO=Simple"}}},
      {"full",
       {{1,   2,   4,   8,   16,  24,   32,   48,   64,   96,   128,
         192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384},
        doubled(128, 131072),
        doubled(1, 256),
        doubled(256, 268435456),
        {4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456},
        {1, 10, 100, 1000},
        {1, 4, 16, 64, 256},
        {1, 8, 64, 512, 2048, 8192},
        {"cublaslt", "cublaslt_best"},
        {"nccl", "nccl_eager", "nccl NCCL_PROTO=Simple", "nccl NCCL_PROTO=LL",
         "nccl NCCL_P2P_LEVEL=SYS", "nccl NCCL_P2P_DISABLE=1"}}}};
  return all;
}

std::string dtype(Precision p) { return p == Precision::bf16 ? "bfloat16" : std::string(name(p)); }

// A sample lasts at least 200 us (events resolve half a microsecond) and eight launches.
constexpr double sample_us = 200;
constexpr int launches_min = 8;
// Three replays to warm up and about thirty samples until the median stands; at most 1.5 s. Before
// that allocation, capture and up to 300 ms until the clocks are steady: 150 ms, assumed (no box
// was timed yet).
constexpr double replays = 33, prepare_s = 0.15;
// cuDNN compiles its attention kernels when they are asked for: 0.15 to 1.0 s each (CUDA 13.0,
// cuDNN 9.19, without a GPU).
constexpr double compile_s = 0.5;
// Ranks are processes that start CUDA and NCCL: assumed, between 2 and 15 s for eight.
constexpr double team_s = 6;

class Planner {
 public:
  Planner(const GpuSpec& gpu, const PlanGrid& grid, CalibrationPlan& plan)
      : gpu_(gpu), grid_(grid), plan_(plan) {}

  void operator()(const GemmOp& op) {
    const double n = static_cast<double>(op.n), k = static_cast<double>(op.k);
    for (const double m : grid_.tokens)
      add(grid_.gemm, "gemm", {{"gemm_dtype", dtype(op.precision)}}, {n, k, m},
          n * k * bytes_per_element(op.precision));
    if (op.precision == Precision::nvfp4) quantise({"nvfp4", "rms_norm_nvfp4"}, k);
  }
  // DeepSeek's width stands for all (the table is by heads and tokens alone).
  void operator()(const BatchedGemmOp& op) {
    const double heads = static_cast<double>(op.batch);
    for (const double m : grid_.tokens)
      add({"cublaslt"}, "mla_bmm", {{"op_name", "mla_gen_pre"}, {"bmm_dtype", "bfloat16"}},
          {heads, m}, heads * 128 * 512 * 2);
  }
  void operator()(const MoeOp& op) {
    const double bytes = 3.0 * op.hidden * op.inter * op.experts * bytes_per_element(op.precision);
    for (const double m : grid_.tokens)
      add(moe_sources(op.precision), "moe",
          {{"moe_dtype", dtype(op.precision)}, {"distribution", "power_law_1.01"}},
          {static_cast<double>(op.experts_per_token), static_cast<double>(op.experts),
           static_cast<double>(op.hidden), static_cast<double>(op.inter) * op.ways, 1,
           static_cast<double>(op.ways), m},
          bytes);
    const auto hidden = static_cast<double>(op.hidden), inter = static_cast<double>(op.inter);
    if (op.precision == Precision::nvfp4) {
      quantise({"nvfp4", "rms_norm_nvfp4"}, hidden);
      quantise({"silu_mul_nvfp4"}, inter);
    }
    rows({"silu_mul"}, inter);
    rows({"gather"}, hidden);
  }
  void operator()(const MlaOp& op) {
    const std::map<std::string, std::string> words{{"mla_dtype", "bfloat16"},
                                                   {"kv_cache_dtype", kv_word()}};
    const double heads = op.heads, per_token = (op.kv_lora + op.rope) * bytes_per_element(op.kv);
    attention("mla", words, {heads}, per_token);
  }
  void operator()(const GqaOp& op) {
    const std::map<std::string, std::string> words{{"attn_dtype", "bfloat16"},
                                                   {"kv_cache_dtype", kv_word()},
                                                   {"head_dim", std::to_string(op.head_dim)},
                                                   {"window_size", "0"}};
    const double heads = op.heads, kv_heads = op.kv_heads;
    attention("attention", words, {kv_heads, heads},
              kv_heads * op.head_dim * 2 * bytes_per_element(op.kv));
  }
  void operator()(const CollectiveOp& op) {
    if (op.op != Collective::all_reduce) return;
    const auto points = [&](const std::string& source, const char* name) {
      for (const double bytes : grid_.message_bytes)
        add({source}, "nccl",
            {{"op_name", name},
             {"nccl_dtype", "half"},
             {"num_gpus", std::to_string(plan_.tensor_parallel)}},
            {bytes}, bytes, plan_.tensor_parallel);
    };
    for (const auto& source :
         grid_.nccl) {  // each setting has ranks of its own: all its points at once
      points(source, "all_reduce");
      if (source == "nccl" && grid_.nccl.size() > 1)
        for (const char* name : {"all_gather", "reduce_scatter", "alltoall"}) points(source, name);
    }
  }
  // Decode of DSA in its pieces, at GLM-5's sizes whatever the ways: their tables have no axis for
  // heads (64, 32 of the indexer).
  void operator()(const IndexerOp& op) {
    if (op.top_k != 2048) return;
    const auto piece = [&](const char* name, const char* source,
                           std::map<std::string, std::string> words, double bytes_per_token) {
      for (const double batch : grid_.sparse_batch)
        for (const double length : grid_.context)
          add({source}, name, words, {batch, 1, length - 1}, batch * length * bytes_per_token);
    };
    piece("dsa_indexer", "mma_fp8", {{"op_name", "glm5_mqa_logits_module"}}, 132);
    piece("dsa_top_k", "radix_select", {{"op_name", "glm5_topk_module"}, {"score_mode", "flat"}},
          4);
    piece("dsa_attention", "split_kv", {{"op_name", "glm5_dsa_attn_module"}}, 576 * 2);
  }
  void operator()(const ElementwiseOp&) {}  // priced by its bytes

  // What the files of card and machine say of memory, links and host, measured: a copy within the
  // card's memory, copies alone and together, launches and waits.
  void box() {
    constexpr double row = 8192;  // 16 KiB of 16 bits: 1, 64 and 512 MiB
    for (const double m : {64.0, 4096.0, 32768.0})
      add({"stream_copy"}, "elementwise", {}, {row, m}, row * m * 2);
    std::vector<std::string> paths{"host_to_device", "device_to_host"};
    if (plan_.tensor_parallel > 1)
      paths.insert(paths.end(), {"peer", "staged", "staged_chunked", "host_flag"});
    for (const bool together : {false, true}) {
      if (together && plan_.tensor_parallel == 1) break;
      const int ranks = together ? plan_.tensor_parallel : 1;
      for (const auto& path : paths)
        for (const double bytes : grid_.copy_bytes)
          add({"cuda"}, "copy", {{"path", path}, {"which", together ? "all" : "one"}}, {bytes},
              bytes, ranks);
      for (const char* what :
           {"eager", "graph_launch", "graph_node", "stream_sync", "event_sync", "read_back"})
        for (const double count : grid_.launch_count)
          add({"cuda"}, "launch", {{"what", what}, {"ranks", together ? "all" : "1"}}, {count}, 4,
              ranks);
    }
  }

 private:
  // Messages lie where they lie, activations were just written.
  static bool comes_cold(const CalibrationPoint& p) {
    for (const char* warm : {"nccl", "copy", "launch", "quantise_static", "elementwise"})
      if (p.kernel_class == warm) return p.source == "stream_copy";
    return true;
  }
  // Grouped kernels of our own first: they are what a server's come nearest to. A loop of one GEMM
  // per expert is an upper bound.
  std::vector<std::string> moe_sources(Precision p) const {
    if (p == Precision::bf16) return {"bf16", "cublaslt_loop"};
    if (p != Precision::nvfp4) return {"cublaslt_loop"};
    if (gpu_.compute_capability >= 12) return {"block_scale", "w4a16", "cublaslt_loop"};
    return gpu_.compute_capability >= 10 ? std::vector<std::string>{"w4a16", "cublaslt_loop"}
                                         : std::vector<std::string>{"w4a16"};
  }
  std::string kv_word() const { return plan_.kv == Precision::bf16 ? "bfloat16" : "fp8"; }

  // Decode over batches and contexts, prefill of one prompt up to 32 Ki from its beginning.
  void attention(const std::string& kind, const std::map<std::string, std::string>& words,
                 const std::vector<double>& heads, double bytes_per_token) {
    const auto point = [&](const std::string& stage, double batch, double length, double curve) {
      Coordinates x{};
      std::copy(heads.begin(), heads.end(), x.begin());
      x[heads.size()] = batch;
      x[heads.size() + 1] = curve;
      std::vector<std::string> sources{"cudnn"};
      if (stage == "generation" && kind == "mla") sources.insert(sources.begin(), "split_kv");
      add(sources, stage + "_" + kind, words, x, batch * length * bytes_per_token);
    };
    for (const double batch : grid_.batch)
      for (const double length : grid_.context)
        point("generation", batch, length, length - 1);  // `step` counts past tokens
    for (const double length : grid_.context)
      if (length <= 32768) point("context", 1, length, length);
  }

  void quantise(const std::vector<std::string>& sources, double k) {
    for (const double m : grid_.small_rows)
      add(sources, "quantise_static", {{"quant_dtype", "nvfp4"}}, {k, m}, k * m * 2);
  }
  void rows(const std::vector<std::string>& sources, double k) {
    for (const double m : grid_.small_rows) add(sources, "elementwise", {}, {k, m}, k * m * 2);
  }

  // The point once for each kernel that can answer for it.
  void add(const std::vector<std::string>& sources, const std::string& kernel_class,
           const std::map<std::string, std::string>& words, const Coordinates& x, double bytes,
           int ranks = 1) {
    for (const auto& source : sources) {
      CalibrationPoint p;
      p.kernel_class = kernel_class;
      p.source = source;
      p.words = words;
      p.x = x;
      p.bytes = bytes;
      p.ranks = ranks;
      if (seen_.insert(p.key()).second) add(std::move(p));
    }
  }
  void add(CalibrationPoint p) {
    const KernelClass* kind = KernelClasses::find(p.kernel_class);
    SIM_ASSERT(kind != nullptr);
    const LawContext context = kind->context(gpu_, p.words);
    if (!(context.peak > 0)) {
      ++plan_.left_out["the card has no such arithmetic"];
      return;
    }
    std::vector<double> guesses;
    for (const auto& parameter : kind->parameters) guesses.push_back(parameter.guess);
    // Weights and KV come cold in a server: rotate over three times the L2, two copies at least.
    const double l2 = static_cast<double>(gpu_.l2.count());
    p.pool_bytes =
        comes_cold(p) ? std::max(2.0, std::ceil(3 * l2 / p.bytes)) * p.bytes : 2 * p.bytes;
    if (p.pool_bytes > 0.8 * static_cast<double>(gpu_.memory.count())) {
      ++plan_.left_out["its rotated copies do not fit the memory"];
      return;
    }
    p.estimate_us = std::max(kind->law(context, guesses.data(), p.x.data()),
                             kind->cold ? kind->cold(context, guesses.data(), p.x.data()) : 0);
    p.launches = std::max(launches_min, static_cast<int>(std::ceil(sample_us / p.estimate_us)));
    const double fill_s = p.pool_bytes / gpu_.memory_bandwidth.count() * 2;
    p.seconds = prepare_s + (p.source == "cudnn" ? compile_s : 0) + fill_s +
                std::min(measured_s_max, replays * p.launches * p.estimate_us * 1e-6);
    const auto setting = p.source.find(' ');
    const auto team =
        p.ranks == 1 && setting == std::string::npos
            ? ""
            : fmt::format("{} {}", p.ranks,
                          setting == std::string::npos ? "" : p.source.substr(setting));
    if (!team.empty() && team != team_) p.seconds += team_s;
    team_ = team;
    plan_.points.push_back(std::move(p));
  }

  const GpuSpec& gpu_;
  const PlanGrid& grid_;
  CalibrationPlan& plan_;
  std::set<std::string> seen_;
  std::string team_;  // ranks and setting of the point before; "" for one process
};

}  // namespace

std::string CalibrationPoint::key() const {
  const KernelClass* kind = KernelClasses::find(kernel_class);
  std::string out = kernel_class + " " + source;
  for (const auto& [id, value] : words) out += fmt::format(" {}={}", id, value);
  for (std::size_t a = 0; kind && a < kind->axes.size(); ++a)
    out += fmt::format(" {}={}", kind->axes[a].column, x[a]);
  return out;
}

double CalibrationPlan::seconds() const {
  double sum = 0;
  for (const auto& p : points) sum += p.seconds;
  return sum;
}

std::uint64_t CalibrationPlan::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto& p : points)
    for (const char c : p.key() + '\n')
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

const PlanGrid* plan_grid(const std::string& profile) {
  const auto it = grids().find(profile);
  return it == grids().end() ? nullptr : &it->second;
}

std::vector<std::string> plan_profiles() { return {"smoke", "quick", "full"}; }

CalibrationPlan make_plan(const ModelSpec& model, const GpuSpec& gpu, const PlanOptions& options) {
  const PlanGrid* grid = plan_grid(options.profile);
  SIM_ASSERT(grid != nullptr);
  CalibrationPlan plan;
  plan.model = model.id;
  plan.gpu = gpu.id;
  plan.profile = options.profile;
  plan.tensor_parallel = options.tensor_parallel;
  plan.kv = options.kv;
  GraphOptions graph;
  graph.tensor_parallel = options.tensor_parallel;
  graph.kv = options.kv;
  Planner planner(gpu, *grid, plan);
  const ModelGraph pass = build_graph(model, graph);
  for (const auto& block : pass.blocks)
    for (const auto& op : block.operators) std::visit(planner, op.work);
  planner.box();
  return plan;
}

std::string render_plan(const CalibrationPlan& plan) {
  struct Line {
    std::size_t points = 0;
    double pool = 0, seconds = 0;
  };
  std::map<std::string, Line> lines;
  for (const auto& p : plan.points) {
    Line& line = lines[p.kernel_class];
    ++line.points;
    line.pool = std::max(line.pool, p.pool_bytes);
    line.seconds += p.seconds;
  }
  Table table({"kernel class", "points", "largest pool", "expected"});
  for (const auto& [name, line] : lines)
    table.row({name, fmt::format("{}", line.points), fmt::format("{:.2f} GB", line.pool * 1e-9),
               fmt::format("{:.1f} s", line.seconds)});
  std::string out =
      fmt::format("{} plan {:016x}: {} on {}, tensor parallel {}, {} KV\n\n", plan.profile,
                  plan.hash(), plan.model, plan.gpu, plan.tensor_parallel, name(plan.kv));
  out += table.text();
  out += fmt::format("\n  {} points, about {:.0f} s\n", plan.points.size(), plan.seconds());
  for (const auto& [reason, count] : plan.left_out)
    out += fmt::format("  {} points left out: {}\n", count, reason);
  return out;
}

std::string plan_to_json(const CalibrationPlan& plan) {
  std::string out = fmt::format(
      "{{\"schema\":1,\"model\":{},\"gpu\":{},\"profile\":{},\"tensor_parallel\":{},\"kv\":{},"
      "\"plan\":\"{:016x}\",\"seconds\":{:.1f},\"points\":[",
      json_text(plan.model), json_text(plan.gpu), json_text(plan.profile), plan.tensor_parallel,
      json_text(name(plan.kv)), plan.hash(), plan.seconds());
  for (const auto& p : plan.points)
    out += fmt::format(
        "{}\n{{\"point\":{},\"class\":{},\"bytes\":{:.0f},\"pool_bytes\":{:.0f},"
        "\"estimate_us\":{:.3f},\"launches\":{},\"ranks\":{},\"seconds\":{:.3f}}}",
        &p == plan.points.data() ? "" : ",", json_text(p.key()), json_text(p.kernel_class), p.bytes,
        p.pool_bytes, p.estimate_us, p.launches, p.ranks, p.seconds);
  out += "],\n\"left_out\":{";
  const char* comma = "";
  for (const auto& [reason, count] : plan.left_out) {
    out += fmt::format("{}{}:{}", comma, json_text(reason), count);
    comma = ",";
  }
  return out + "}}\n";
}
