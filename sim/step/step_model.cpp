#include "sim/step/step_model.hpp"

#include <algorithm>

#include "sim/base/assert.hpp"

StepModel::StepModel(ModelGraph graph, const CostModels& costs, const CollectivePricer& collectives,
                     ExpertPopularity popularity, LaunchCosts launch, Only only)
    : graph_(std::move(graph)),
      costs_(costs),
      collectives_(collectives),
      popularity_(std::move(popularity)),
      launch_(launch),
      only_(only),
      launches_(graph_.launches()) {
  for (const LayerBlock& block : graph_.blocks) layers_ += block.is_layer ? block.repeat : 0;
}

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::int64_t rows_of(Rows rows, const PassShape& pass) {
  return rows == Rows::tokens ? pass.tokens() : pass.heads_rows;
}

// The prompts of a pass: as gathered, else alike.
std::vector<PromptPart> prompts_of(const PassShape& pass) {
  if (!pass.prompts.empty()) return {pass.prompts.begin(), pass.prompts.end()};
  std::vector<PromptPart> out;
  for (const AlikePrompts& p : alike_prompts(pass))
    out.insert(out.end(), static_cast<std::size_t>(p.count), p.each);
  return out;
}

}  // namespace

void StepModel::set_attention(const GpuSpec& gpu, const AttentionKernel& kernel) {
  gpu_ = gpu;
  attention_kernel_ = kernel;
}

void StepModel::set_residuals(PassResiduals residuals) { residuals_ = std::move(residuals); }

bool StepModel::wants_lengths() const {
  if (!attention_kernel_.walks_unsplit &&
      attention_kernel_.prompts == AttentionKernel::Prompts::added)
    return false;
  for (const LayerBlock& block : graph_.blocks)
    for (const Operator& op : block.operators)
      if (std::holds_alternative<GqaOp>(op.work)) return true;
  return false;
}

Prediction StepModel::attention(const GqaOp& op, const PassShape& pass) const {
  SIM_ASSERT(costs_.attention_decode && costs_.attention_prefill);
  AttentionPass p;
  p.heads = {op.heads, op.kv_heads, op.head_dim, op.kv};
  p.padded_batch = pass.decode_sequences;
  if (!pass.decode_kv_each.empty()) {
    p.decodes = KvLengths::of(pass.decode_kv_each);
    SIM_ASSERT(p.decodes.count <= p.padded_batch);
  } else if (pass.decode_sequences > 0) {
    const std::int64_t n = pass.decode_sequences, sum = pass.decode_kv_tokens;
    p.decodes = {n, sum, (sum + n - 1) / n};
  }
  if (pass.extend_sequences > 0) p.prompts = prompts_of(pass);
  return attention_pass(p, gpu_, attention_kernel_, *costs_.attention_decode,
                        *costs_.attention_prefill, costs_.attention_mixed.get());
}

std::vector<BreakdownItem> StepModel::residual_items(const PassShape& pass) const {
  std::vector<BreakdownItem> out;
  if (only_ != Only::everything) return out;
  const auto add = [&](const char* group, const Constant<Duration>& c, std::int64_t times) {
    if (c.value <= Duration()) return;
    BreakdownItem item;
    item.group = group;
    item.resource = "kernel latency";
    item.time = times * c.value;
    item.provenance = c.basis;
    item.error = std::max(c.spread - 1, 0.0);
    out.push_back(std::move(item));
  };
  if (pass.extend_sequences > 0) {
    int layers = 0;
    for (const LayerBlock& block : graph_.blocks) layers += block.is_layer ? block.repeat : 0;
    add("beside prefill kernels", residuals_.per_prefill_layer, layers);
  } else {
    for (const auto& band : residuals_.bands)
      if (pass.decode_sequences >= band.batch_min && pass.decode_sequences <= band.batch_max) {
        add("beside decode kernels", band.time, 1);
        if (band.per_sequence)
          add("beside decode kernels", *band.per_sequence, pass.decode_sequences);
      }
  }
  return out;
}

Duration StepModel::residual(const PassShape& pass) const {
  // Once a pass: without the words of residual_items().
  if (only_ != Only::everything) return {};
  if (pass.extend_sequences > 0) {
    if (residuals_.per_prefill_layer.value <= Duration()) return {};
    return layers_ * residuals_.per_prefill_layer.value;
  }
  for (const auto& band : residuals_.bands)
    if (pass.decode_sequences >= band.batch_min && pass.decode_sequences <= band.batch_max)
      return band.time.value +
             (band.per_sequence ? pass.decode_sequences * band.per_sequence->value : Duration());
  return {};
}

// `small_kernels`: how many of them share the build's time for a layer; 0 where none is stated.
// Those of an indexer come on top at the same price each.
StepModel::Priced StepModel::price(const Operator& op, const PassShape& pass,
                                   int small_kernels) const {
  Priced out;
  const auto add = [&out](const Prediction& p, int times = 1) {
    out.time += times * p.time;
    out.arithmetic += times * p.arithmetic;
    out.memory += times * p.memory;
    out.provenance = std::max(out.provenance, p.provenance);
    out.error = std::max(out.error, p.error);
  };
  const std::int64_t tokens = pass.tokens();
  std::visit(
      Overloaded{
          [&](const GemmOp& g) {
            const auto rows = rows_of(g.rows, pass);
            if (rows > 0) add(costs_.gemm->predict({rows, g.n, g.k, g.precision}));
          },
          [&](const BatchedGemmOp& g) {
            add(costs_.batched_gemm->predict({g.batch, tokens, g.n, g.k}));
          },
          [&](const MoeOp& m) {
            const double distinct = popularity_.distinct(tokens);
            add(costs_.moe->predict({tokens, m.hidden, m.inter, m.experts_per_token, m.experts,
                                     m.ways, distinct, m.precision, m.bf16_activations}));
          },
          [&](const MlaOp& a) {
            const bool sparse = a.top_k > 0;
            if (pass.decode_sequences > 0)
              add(costs_.mla_decode->predict(
                  {pass.decode_sequences,
                   sparse ? pass.decode_kv_tokens_capped : pass.decode_kv_tokens, a.heads,
                   a.kv_lora, a.rope, a.kv}));
            if (pass.extend_sequences > 0)
              add(costs_.mla_prefill->predict(
                  {pass.extend_sequences, pass.extend_tokens, pass.extend_tokens_max,
                   sparse ? pass.extend_pairs_capped : pass.extend_pairs, a.heads, a.kv_lora,
                   a.rope, a.kv}));
          },
          [&](const GqaOp& a) {
            if (tokens > 0) add(attention(a, pass));
          },
          [&](const IndexerOp& i) {
            // An extend whose keys all fit into the top-k writes its keys and skips the
            // logits.
            if (pass.decode_sequences > 0)
              add(costs_.indexer->predict({pass.decode_sequences, pass.decode_kv_tokens,
                                           pass.kv_max, i.heads, i.dim, i.top_k}));
            if (pass.extend_sequences > 0 && pass.kv_max > i.top_k)
              add(costs_.indexer->predict({pass.extend_sequences, pass.extend_pairs, pass.kv_max,
                                           i.heads, i.dim, i.top_k, true}));
          },
          [&](const ElementwiseOp& e) {
            Prediction p =
                costs_.elementwise->predict({rows_of(e.rows, pass) * e.bytes_per_row, e.in_place});
            if (small_kernels > 0) {
              const auto& all = *launch_.small_kernels;
              p.time = p.time - costs_.elementwise->predict({0}).time + all.value / small_kernels;
              p.provenance = all.basis;
            }
            add(p, op.launches);
          },
          [&](const CollectiveOp& c) {
            const auto& p =
                collectives_.price(c.op, Bytes(rows_of(c.rows, pass) * c.bytes_per_row));
            out.time = p.time;
            out.provenance = p.provenance;
            out.collective = true;
          }},
      op.work);
  if (residuals_.kernel_scale && !out.collective) {
    const auto& scale = *residuals_.kernel_scale;
    out.time = std::max({out.time.scaled(scale.value), out.arithmetic, out.memory});
    out.provenance = std::max(out.provenance, scale.basis);
  }
  return out;
}

Duration StepModel::counted(const Priced& p) const {
  switch (only_) {
    case Only::everything:
      return p.time;
    case Only::arithmetic:
      return p.arithmetic;
    case Only::memory:
      return p.memory;
    case Only::interconnect:
      return p.collective ? p.time : Duration();
    case Only::launch:
    case Only::nothing:
      return {};
  }
  SIM_UNREACHABLE("a resource without a price");
}

// Calls visit(operator, priced, exposed): the time that each operator adds to its layer. Operators
// beside the main stream add what sticks out: the pair lasts as long as the longer stream, and as
// long as the memory traffic of both takes.
template <class Visit>
Duration StepModel::walk_block(const LayerBlock& block, std::size_t first, std::size_t last,
                               const PassShape& pass, bool side_streams, Visit visit) const {
  Duration total, main_since_fork, main_memory, side, side_memory;
  std::vector<std::pair<const Operator*, Priced>> beside;
  const auto close = [&] {
    const Duration longest = std::max({main_since_fork, side, main_memory + side_memory});
    Duration exposed = beside.empty() ? Duration() : longest - main_since_fork;
    total += exposed;
    for (const auto& [op, priced] : beside) {
      visit(*op, priced, exposed);
      exposed = Duration();
    }
    beside.clear();
    main_since_fork = main_memory = side = side_memory = Duration();
  };
  const int small = small_kernels(block);
  for (std::size_t i = first; i < last; ++i) {
    const Operator& op = block.operators[i];
    const Priced priced = price(op, pass, small);
    const Duration time = counted(priced);
    if (op.join) close();
    if (side_streams && op.side) {
      if (beside.empty()) main_since_fork = main_memory = Duration();
      beside.emplace_back(&op, priced);
      side += time;
      side_memory += std::min(priced.memory, time);
      continue;
    }
    main_since_fork += time;
    main_memory += std::min(priced.memory, time);
    total += time;
    visit(op, priced, time);
  }
  close();
  return total;
}

int StepModel::small_kernels(const LayerBlock& block) const {
  if (!launch_.small_kernels || !block.is_layer) return 0;
  int n = 0;
  for (const Operator& op : block.operators)
    if (std::holds_alternative<ElementwiseOp>(op.work) && op.group != "indexer") n += op.launches;
  return n;
}

Timeline StepModel::issued(const Operator& op, Duration total, bool captured) const {
  if (captured) return {Duration(), total, total};
  return Timeline::kernels(op.launches, host_counts() ? launch_.per_launch : Duration(), total);
}

Timeline StepModel::graph_launch(bool captured) const {
  if (!captured || !host_counts()) return {};
  const Duration launch = launch_.graph + launches_ * launch_.graph_per_node;
  return {launch, Duration(), launch};
}

Duration StepModel::time(const Operator& op, const LayerBlock& block, const PassShape& pass) const {
  return counted(price(op, pass, small_kernels(block)));
}

Timeline StepModel::stretch(const LayerBlock& block, std::size_t first, std::size_t last,
                            const PassShape& pass, bool captured) const {
  Timeline out;
  walk_block(block, first, last, pass, captured && launch_.side_streams,
             [&](const Operator& op, const Priced&, Duration exposed) {
               out = out.then(issued(op, exposed, captured));
             });
  return out;
}

Timeline StepModel::cost(const PassShape& pass, bool captured) const {
  Timeline whole = graph_launch(captured);
  for (const LayerBlock& block : graph_.blocks)
    whole = whole.then(
        stretch(block, 0, block.operators.size(), pass, captured).repeated(block.repeat));
  const Duration beside = residual(pass);
  whole = whole.then({Duration(), beside, beside});
  return whole;
}

Breakdown StepModel::breakdown(const PassShape& pass, bool captured) const {
  struct Sum {
    Duration time, arithmetic, memory;
    bool collective = false;
    Provenance provenance = Provenance::exact;
    double error = 0;  // of the group, weighted by time
  };
  std::vector<std::pair<std::string, Sum>> groups;
  Breakdown out;
  for (const LayerBlock& block : graph_.blocks)
    out.device +=
        block.repeat *
        walk_block(block, 0, block.operators.size(), pass, captured && launch_.side_streams,
                   [&](const Operator& op, const Priced& p, Duration exposed) {
                     auto it = std::find_if(groups.begin(), groups.end(),
                                            [&](const auto& g) { return g.first == op.group; });
                     if (it == groups.end()) it = groups.insert(groups.end(), {op.group, {}});
                     Sum& sum = it->second;
                     sum.time += block.repeat * exposed;
                     sum.arithmetic += block.repeat * p.arithmetic;
                     sum.memory += block.repeat * p.memory;
                     sum.collective |= p.collective;
                     sum.provenance = std::max(sum.provenance, p.provenance);
                     sum.error += p.error * (block.repeat * exposed).seconds();
                   });
  for (const auto& [group, sum] : groups) {
    BreakdownItem item;
    item.group = group;
    item.time = sum.time;
    item.provenance = sum.provenance;
    item.error = sum.time > Duration() ? sum.error / sum.time.seconds() : 0;
    if (sum.collective)
      item.resource = "interconnect";
    else if (std::max(sum.memory, sum.arithmetic) * 2 < sum.time)
      item.resource = "kernel latency";
    else
      item.resource = sum.memory >= sum.arithmetic ? "memory" : "arithmetic";
    out.items.push_back(std::move(item));
  }
  for (auto& item : residual_items(pass)) {
    out.device += item.time;
    out.items.push_back(std::move(item));
  }
  out.host = cost(pass, captured).host;
  return out;
}
