#include "models/graph/model_spec.hpp"

#include <algorithm>

#include <fmt/format.h>

ModelSpec read_model(const std::string& id, const Settings& file, Reading& reading) {
  Section s(file, "model", reading);
  // Far beyond any model; products of sizes stay inside 64 bits.
  const auto count = between(1, 1 << 18);
  ModelSpec m;
  m.id = id;
  s.required<int>("schema", between(1, 1));
  s.required<std::string>("source");
  m.name = s.required<std::string>("name");
  m.layers = s.required<int>("layers", between(1, 1024));
  const bool dense = !file.find("moe");
  m.dense_layers = s.optional<int>("dense_layers", dense ? m.layers : 0, at_least(0));
  m.hidden = s.required<int>("hidden", count);
  m.dense_inter = s.optional<int>("dense_inter", 0, between(0, 1 << 18));
  m.vocab = s.required<int>("vocab", between(1, 1 << 24));
  m.mtp_layers = s.optional<int>("mtp_layers", 0, between(0, 64));
  m.context_length = s.required<std::int64_t>("context_length", positive<std::int64_t>());
  if (const Settings* node = s.take_required("attention")) {
    Section a(*node, "model.attention", reading);
    if (a.word("kind", {"mla", "gqa"}) == "gqa") {
      const GqaSpec g{
          a.required<int>("heads", between(1, 4096)), a.required<int>("kv_heads", between(1, 4096)),
          a.required<int>("head_dim", between(1, 4096)), a.optional<bool>("qk_norm", false)};
      if (g.kv_heads > 0 && g.heads % g.kv_heads != 0)
        a.error("kv_heads", "every KV head must serve as many query heads");
      m.attention = g;
    } else {
      m.attention = MlaSpec{a.required<int>("heads", between(1, 4096)),
                            a.required<int>("q_lora", count),
                            a.required<int>("kv_lora", count),
                            a.required<int>("nope", count),
                            a.required<int>("rope", between(0, 1 << 18)),
                            a.required<int>("v", count)};
    }
  }
  if (const Settings* node = s.take("indexer")) {
    Section i(*node, "model.indexer", reading);
    m.indexer = IndexerSpec{i.required<int>("heads", between(1, 4096)),
                            i.required<int>("dim", count), i.required<int>("top_k", count)};
  }
  if (m.indexer && !m.mla()) s.error("indexer", "only latent attention (mla) has an indexer");
  if (const Settings* node = s.take("moe")) {
    Section e(*node, "model.moe", reading);
    m.moe = MoeSpec{
        e.required<int>("experts", between(1, 4096)), e.required<int>("experts_per_token", count),
        e.optional<int>("shared_experts", 0, between(0, 64)), e.required<int>("inter", count)};
    if (m.moe->experts_per_token > m.moe->experts)
      e.error("experts_per_token", "a token cannot use more experts than there are");
  }
  m.tie_embeddings = s.optional<bool>("tie_embeddings", false);
  if (const Settings* node = s.take_required("precision")) {
    Section p(*node, "model.precision", reading);
    auto& r = m.precision;
    for (const auto& [key, part] : {std::pair<const char*, Precision*>{"attention", &r.attention},
                                    {"dense_mlp", &r.dense_mlp},
                                    {"shared_experts", &r.shared_experts},
                                    {"experts", &r.experts},
                                    {"router", &r.router},
                                    {"embedding", &r.embedding},
                                    {"lm_head", &r.lm_head},
                                    {"mtp", &r.mtp}})
      *part = parse_precision(p, key, Precision::bf16);
  }
  if (m.dense_layers > m.layers) s.error("dense_layers", "there are fewer layers than dense ones");
  if (dense && m.dense_layers != m.layers)
    s.error("dense_layers", "a model without 'moe' is dense in every layer",
            "leave out dense_layers");
  if (dense && m.mtp_layers > 0) s.error("mtp_layers", "MTP layers are modelled as MoE layers");
  if (m.dense_layers > 0 && m.dense_inter == 0)
    s.error("dense_inter", "dense layers need 'dense_inter'");
  return m;
}

int WeightMatrix::shards(int tensor_parallel) const {
  if (!sharded) return 1;
  return shards_max > 0 ? std::min(shards_max, tensor_parallel) : tensor_parallel;
}

std::vector<WeightMatrix> weight_matrices(const ModelSpec& m) {
  std::vector<WeightMatrix> out;
  const std::int64_t hidden = m.hidden;
  // `layers` layers of attention, or one set of MTP layers in their own precision.
  const auto add = [&](std::string name, std::string group, std::int64_t count, std::int64_t rows,
                       std::int64_t columns, Precision precision, bool sharded, bool mtp,
                       double active_share = 1, int shards_max = 0) {
    out.push_back({std::move(name), std::move(group), count * rows * columns, active_share,
                   mtp ? m.precision.mtp : precision, sharded, mtp, shards_max});
  };
  const auto attention = [&](std::int64_t layers, bool mtp) {
    const auto p = m.precision.attention;
    if (const GqaSpec* g = m.gqa()) {
      const std::int64_t q = std::int64_t{g->heads} * g->head_dim;
      add("q_proj", "attention", layers, hidden, q, p, true, mtp);
      add("k_v_proj", "attention", layers, hidden, 2 * std::int64_t{g->kv_heads} * g->head_dim, p,
          true, mtp, 1, g->kv_heads);
      add("o_proj", "attention", layers, q, hidden, p, true, mtp);
      return;
    }
    const MlaSpec& a = *m.mla();
    add("q_a", "attention", layers, hidden, a.q_lora, p, false, mtp);
    add("kv_a", "attention", layers, hidden, a.kv_lora + a.rope, p, false, mtp);
    add("q_b", "attention", layers, a.q_lora, std::int64_t{a.heads} * (a.nope + a.rope), p, true,
        mtp);
    add("kv_b", "attention", layers, a.kv_lora, std::int64_t{a.heads} * (a.nope + a.v), p, true,
        mtp);
    add("o_proj", "attention", layers, std::int64_t{a.heads} * a.v, hidden, p, true, mtp);
    if (!m.indexer) return;
    const auto& i = *m.indexer;
    add("indexer_q", "indexer", layers, a.q_lora, std::int64_t{i.heads} * i.dim, p, false, mtp);
    add("indexer_k", "indexer", layers, hidden, i.dim, p, false, mtp);
    add("indexer_weights", "indexer", layers, hidden, i.heads, p, false, mtp);
  };
  const auto moe = [&](std::int64_t layers, bool mtp) {
    const MoeSpec& e = *m.moe;
    const double used = static_cast<double>(e.experts_per_token) / e.experts;
    add("routed_experts", "routed experts", layers * e.experts, 3 * hidden, e.inter,
        m.precision.experts, true, mtp, used);
    if (e.shared_experts > 0)
      add("shared_experts", "shared experts", layers * e.shared_experts, 3 * hidden, e.inter,
          m.precision.shared_experts, true, mtp);
    add("router", "router", layers, hidden, e.experts, m.precision.router, false, mtp);
  };
  // Tied, the table is the matrix of the head, which every token multiplies with.
  add("embedding", "embedding and head", 1, m.vocab, hidden, m.precision.embedding, true, false,
      m.tie_embeddings ? 1 : 0);
  attention(m.layers, false);
  if (m.dense_layers > 0)
    add("dense_mlp", "dense layers", m.dense_layers, 3 * hidden, m.dense_inter,
        m.precision.dense_mlp, true, false);
  if (m.moe) moe(m.layers - m.dense_layers, false);
  if (!m.tie_embeddings)
    add("lm_head", "embedding and head", 1, hidden, m.vocab, m.precision.lm_head, true, false);
  if (m.mtp_layers > 0) {
    attention(m.mtp_layers, true);
    moe(m.mtp_layers, true);
    add("mtp_projection", "mtp", m.mtp_layers, 2 * hidden, hidden, m.precision.mtp, false, true);
  }
  return out;
}

ParameterCount count_parameters(const ModelSpec& model) {
  ParameterCount out;
  for (const auto& w : weight_matrices(model)) {
    if (w.mtp) {
      out.mtp += w.parameters;
      continue;
    }
    out.total += w.parameters;
    out.active +=
        static_cast<std::int64_t>(static_cast<double>(w.parameters) * w.active_share + 0.5);
  }
  return out;
}

WeightBytes weight_bytes_per_gpu(const ModelSpec& model, int tensor_parallel, bool with_mtp) {
  WeightBytes out;
  for (const auto& w : weight_matrices(model)) {
    if (w.mtp && !with_mtp) continue;
    const double bytes = static_cast<double>(w.parameters) * bytes_per_element(w.precision) /
                         w.shards(tensor_parallel);
    const Bytes b(static_cast<std::int64_t>(bytes + 0.5));
    const std::string group = w.mtp ? "mtp" : w.group;
    auto it = std::find_if(out.groups.begin(), out.groups.end(),
                           [&](const auto& g) { return g.first == group; });
    if (it == out.groups.end())
      out.groups.emplace_back(group, b);
    else
      it->second += b;
    out.total += b;
  }
  return out;
}

BytesPerToken kv_bytes_per_token(const ModelSpec& m, Precision kv, int tensor_parallel) {
  if (const GqaSpec* g = m.gqa()) {
    const std::int64_t heads = std::max(g->kv_heads / tensor_parallel, 1);
    const auto each = static_cast<std::int64_t>(2 * g->head_dim * bytes_per_element(kv));
    return BytesPerToken(m.layers * heads * each);
  }
  const MlaSpec& a = *m.mla();
  const auto latent = static_cast<std::int64_t>((a.kv_lora + a.rope) * bytes_per_element(kv));
  const std::int64_t index = m.indexer ? m.indexer->dim + m.indexer->dim / 128 * 4 : 0;
  return BytesPerToken(m.layers * (latent + index));
}

std::string tensor_parallel_obstacle(const ModelSpec& m, int tp) {
  if (m.attention_heads() % tp != 0)
    return fmt::format("{} does not divide the {} attention heads", tp, m.attention_heads());
  // More ranks than KV heads hold copies of them.
  if (const GqaSpec* g = m.gqa(); g && g->kv_heads % tp != 0 && tp % g->kv_heads != 0)
    return fmt::format("{} neither divides the {} KV heads nor is a multiple of them", tp,
                       g->kv_heads);
  if (m.moe && m.moe->inter % tp != 0)
    return fmt::format("{} does not divide the expert width {}", tp, m.moe->inter);
  if (m.dense_layers > 0 && m.dense_inter % tp != 0)
    return fmt::format("{} does not divide the dense width {}", tp, m.dense_inter);
  if (m.vocab % tp != 0) return fmt::format("{} does not divide the vocabulary of {}", tp, m.vocab);
  return {};
}
