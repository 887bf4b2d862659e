#include <fmt/format.h>

#include "models/graph/graph.hpp"
#include "sim/cli/command.hpp"
#include "sim/report/table.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

struct Options {
  std::string model;
  int tensor_parallel = 8;
};

std::string shape_text(const Operator& op) {
  const auto rows = [](Rows r) { return r == Rows::tokens ? "tokens" : "sequences"; };
  if (const auto* g = std::get_if<GemmOp>(&op.work))
    return fmt::format("[{} x {}] x [{} x {}] {}", rows(g->rows), g->k, g->k, g->n,
                       name(g->precision));
  if (const auto* g = std::get_if<BatchedGemmOp>(&op.work))
    return fmt::format("{} heads of [tokens x {}] x [{} x {}]", g->batch, g->k, g->k, g->n);
  if (const auto* m = std::get_if<MoeOp>(&op.work))
    return fmt::format("top-{} of experts {} -> {} -> {} {}", m->experts_per_token, m->hidden,
                       m->inter, m->hidden, name(m->precision));
  if (const auto* a = std::get_if<MlaOp>(&op.work))
    return fmt::format("{} heads over {} + {} latent, {}, {} KV", a->heads, a->kv_lora, a->rope,
                       a->top_k ? fmt::format("top {}", a->top_k) : "dense", name(a->kv));
  if (const auto* a = std::get_if<GqaOp>(&op.work))
    return fmt::format("{} query heads, {} KV heads of {}, {} KV", a->heads, a->kv_heads,
                       a->head_dim, name(a->kv));
  if (const auto* i = std::get_if<IndexerOp>(&op.work))
    return fmt::format("{} heads of {}, top {}", i->heads, i->dim, i->top_k);
  if (const auto* e = std::get_if<ElementwiseOp>(&op.work))
    return fmt::format("{} B a row of {}", grouped(e->bytes_per_row), rows(e->rows));
  const auto& c = std::get<CollectiveOp>(op.work);
  return fmt::format("{} of {} B x {}", name(c.op), grouped(c.bytes_per_row), rows(c.rows));
}

std::string split_text(const WeightMatrix& w, int tp) {
  const int shards = w.shards(tp);
  if (!w.sharded || (tp > 1 && shards == 1)) return "replicated";
  return shards == tp ? "over GPUs" : fmt::format("{} ways, copied", shards);
}

Exit explain(const Options& o) {
  const auto path = find_data_file("models/zoo", o.model, {});
  if (!path) return report_errors(path.error());
  const auto file = load_yaml(*path, {});
  if (!file) return report_errors(file.error());
  Reading reading;
  const ModelSpec m = read_model(o.model, *file, reading);
  if (reading.errors.empty())
    if (const auto obstacle = tensor_parallel_obstacle(m, o.tensor_parallel); !obstacle.empty())
      reading.errors.error({}, "--tp: " + obstacle);
  if (!reading.errors.empty()) return report_errors(reading.errors);

  const int tp = o.tensor_parallel;
  const auto count = count_parameters(m);
  const auto billions = [](std::int64_t n) { return static_cast<double>(n) / 1e9; };
  std::string out = fmt::format("{}: {:.1f} B parameters", m.name, billions(count.total));
  if (m.moe) out += fmt::format(", {:.1f} B active", billions(count.active));
  if (m.mtp_layers > 0)
    out += fmt::format(", {:.2f} B in MTP layers (not loaded)", billions(count.mtp));
  out += "\n";
  out += fmt::format(
      "per GPU at TP{}: {:.2f} GiB of weights; KV {} B a token in bf16, {} B in fp8\n\n", tp,
      weight_bytes_per_gpu(m, tp, false).total.real() / 1073741824.0,
      grouped(kv_bytes_per_token(m, Precision::bf16, tp).count()),
      grouped(kv_bytes_per_token(m, Precision::fp8, tp).count()));
  Table weights({"weights", "parameters", "stored as", "split", "GiB a GPU"}, 2);
  weights.left(2).left(3);
  for (const auto& w : weight_matrices(m)) {
    if (w.mtp) continue;
    const double bytes =
        static_cast<double>(w.parameters) * bytes_per_element(w.precision) / w.shards(tp);
    weights.row({w.name, fmt::format("{:.3f} B", static_cast<double>(w.parameters) / 1e9),
                 std::string(name(w.precision)), split_text(w, tp),
                 fmt::format("{:.2f}", bytes / 1073741824.0)});
  }
  out += weights.text() + "\n";
  const ModelGraph graph = build_graph(m, {tp, m.indexer.has_value(), Precision::bf16});
  out += fmt::format("one forward pass: {} launches", grouped(graph.launches()));
  if (tp > 1)
    out += fmt::format(", {} all-reduces, {} all-gather", graph.count(Collective::all_reduce),
                       graph.count(Collective::all_gather));
  out += m.indexer ? " (with the indexer)\n" : "\n";
  for (const auto& block : graph.blocks) {
    out += fmt::format("\n  {} x {}\n", block.repeat, block.name);
    Table ops({"operator", "launches", "works on"}, 4);
    ops.left(2);
    for (const auto& op : block.operators)
      ops.row({op.name, fmt::format("{}", op.launches),
               shape_text(op) + (op.side ? " (side stream when captured)" : "")});
    out += ops.text();
  }
  print_result(out);
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("--model", o->model, "a model of models/zoo, or a path").required();
  line.add("--tp", o->tensor_parallel, "tensor parallel GPUs").range(1, 1024);
  return [o] { return explain(*o); };
}

const Registered<Command> me("explain",
                             {4, "what a model is made of: weights, KV, operators of a pass",
                              "ceiling explain --model glm-5-nvfp4", setup});

}  // namespace
