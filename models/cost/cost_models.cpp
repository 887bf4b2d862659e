#include "models/cost/cost_models.hpp"

#include <fmt/format.h>

BackEnds read_back_ends(Section& s) {
  BackEnds b;
  b.gemm = s.required<std::string>("gemm");
  for (const auto& [key, back_end] :
       {std::pair<const char*, std::string*>{"batched_gemm", &b.batched_gemm},
        {"moe", &b.moe},
        {"mla_decode", &b.mla_decode},
        {"mla_prefill", &b.mla_prefill},
        {"indexer", &b.indexer},
        {"attention_decode", &b.attention_decode},
        {"attention_prefill", &b.attention_prefill},
        {"attention_mixed", &b.attention_mixed}})
    *back_end = s.maybe<std::string>(key).value_or("");
  b.elementwise = s.required<std::string>("elementwise");
  return b;
}

namespace {

template <class Shape>
void read_one(const std::string& kernel_class, const std::string& back_end,
              const CostContext& context, Section& laws, CostModels& models,
              std::unique_ptr<CostModel<Shape>>& out) {
  const Settings* by_back_end =
      back_end.empty() ? laws.take(kernel_class) : laws.take_required(kernel_class);
  if (back_end.empty() || !by_back_end) return;
  const Settings* node = by_back_end->find(back_end);
  if (!node) {
    std::vector<std::string> known;
    for (const auto& entry : by_back_end->entries()) known.push_back(entry.key);
    laws.error(kernel_class, fmt::format("no law for the {} back end '{}'", kernel_class, back_end),
               suggestion(back_end, known));
    return;
  }
  Section s(*node, fmt::format("laws.{}.{}", kernel_class, back_end), laws.reading());
  models.sources[kernel_class] = s.required<std::string>("source");
  const auto names = Registry<CostModelFactory<Shape>>::names();
  const auto model = s.word("model", names);
  if (const auto* factory = Registry<CostModelFactory<Shape>>::find(model)) {
    out = (*factory)(context, s);
    if (auto sets = out->rests_on(); !sets.empty()) models.tables[kernel_class] = std::move(sets);
  } else {
    s.ignore_rest();
  }
}

}  // namespace

CostModels read_cost_models(const CostContext& context, const BackEnds& b, const Settings& file,
                            Reading& reading) {
  CostModels m;
  Section laws(file, "laws", reading);
  laws.required<int>("schema", between(1, 1));
  laws.required<std::string>("gpu");
  read_one("gemm", b.gemm, context, laws, m, m.gemm);
  read_one("batched_gemm", b.batched_gemm, context, laws, m, m.batched_gemm);
  read_one("moe", b.moe, context, laws, m, m.moe);
  read_one("mla_decode", b.mla_decode, context, laws, m, m.mla_decode);
  read_one("mla_prefill", b.mla_prefill, context, laws, m, m.mla_prefill);
  read_one("indexer", b.indexer, context, laws, m, m.indexer);
  read_one("attention_decode", b.attention_decode, context, laws, m, m.attention_decode);
  read_one("attention_prefill", b.attention_prefill, context, laws, m, m.attention_prefill);
  read_one("attention_mixed", b.attention_mixed, context, laws, m, m.attention_mixed);
  read_one("elementwise", b.elementwise, context, laws, m, m.elementwise);
  return m;
}
