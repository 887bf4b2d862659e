#include "hardware/collective/pricing.hpp"

#include <algorithm>

#include "hardware/collective/kernels/kernel.hpp"
#include "hardware/collective/staging.hpp"

AllReducePolicy read_all_reduce_policy(const Settings* list, const std::string& what,
                                       Reading& reading) {
  AllReducePolicy out;
  if (!list) return out;
  if (!list->is_sequence()) {
    reading.errors.error(list->where(), what + " must be a list",
                         "write '- {kernel: one_shot, up_to: 64 KiB}' and then '- {kernel: nccl}'");
    return out;
  }
  auto kernels = Registry<CollectiveKernelFactory>::names();
  kernels.emplace_back("nccl");
  for (const Settings& item : list->items()) {
    Section s(item, what, reading);
    AllReduceChoice choice;
    choice.kernel = s.word("kernel", kernels);
    choice.up_to = s.maybe<Bytes>("up_to", positive<Bytes>());
    choice.channels = s.maybe<int>("channels", between(1, 64));
    if (choice.channels && choice.kernel != "nccl")
      s.error("channels", "only NCCL has channels", "leave it out");
    if (!out.empty() && (!out.back().up_to || (choice.up_to && *choice.up_to <= *out.back().up_to)))
      s.error("up_to", "the sizes of all_reduce must ascend, the one without 'up_to' last");
    out.push_back(std::move(choice));
  }
  return out;
}

namespace {

const CollectiveKernel* find_kernel(const std::string& name) {
  const auto* factory = Registry<CollectiveKernelFactory>::find(name);
  return factory ? &(*factory)() : nullptr;
}

}  // namespace

CollectivePricer::CollectivePricer(const Topology& topology, const Interconnect& interconnect,
                                   int ranks, double compute_capability, AllReducePolicy policy)
    : box_(topology, with_timed_staging(topology, interconnect, compute_capability), ranks,
           compute_capability) {
  if (ranks == 1) return;
  view_ = nccl_view(topology, ranks, compute_capability, interconnect.nccl);
  // Channels per size were seen beside the engine's own kernels, all of which need peer access.
  if (!box_.peers()) return;
  for (AllReduceChoice& choice : policy) {
    const CollectiveKernel* kernel = find_kernel(choice.kernel);
    if (kernel && !kernel->supports(Collective::all_reduce, box_)) continue;
    policy_.push_back(std::move(choice));
  }
}

void CollectivePricer::anchor(const std::vector<MeasuredCurve>& curves,
                              const CollectivePricer& base, bool edited) {
  known_.clear();
  edited_ = edited;
  for (const MeasuredCurve& curve : curves)
    if (curve.ranks == box_.ranks())
      anchors_.emplace_back(curve, [&](Bytes size) {
        CollectivePrice price = base.law(curve.kernel, curve.op, size, std::nullopt);
        if (curve.transport && *curve.transport != price.transport) price.time = Duration();
        return price;
      });
}

const CollectivePrice& CollectivePricer::price(Collective op, Bytes size) const {
  const std::lock_guard lock(guard_);
  const auto [it, fresh] = known_.try_emplace({op, size.count()});
  if (fresh) it->second = compute(op, size);
  return it->second;
}

CollectivePrice CollectivePricer::price_by(const std::string& kernel, Collective op,
                                           Bytes size) const {
  return anchored(op, size, law(kernel, op, size, std::nullopt));
}

CollectivePrice CollectivePricer::compute(Collective op, Bytes size) const {
  CollectivePrice out;
  if (box_.ranks() == 1 || size.count() == 0) {
    out.transport = Transport::local;
    return out;
  }
  if (op == Collective::all_reduce)
    for (const AllReduceChoice& choice : policy_)
      if (!choice.up_to || size <= *choice.up_to)
        return anchored(op, size, law(choice.kernel, op, size, choice.channels));
  return anchored(op, size, law("nccl", op, size, std::nullopt));
}

CollectivePrice CollectivePricer::law(const std::string& kernel, Collective op, Bytes size,
                                      std::optional<int> channels) const {
  if (const CollectiveKernel* own = find_kernel(kernel))
    if (own->supports(op, box_)) return own->price(op, size, box_);
  return nccl_price(op, size, box_, view_, channels.value_or(view_.channels));
}

CollectivePrice CollectivePricer::anchored(Collective op, Bytes size, CollectivePrice law) const {
  for (const Anchor& anchor : anchors_) {
    if (anchor.curve().op != op || anchor.curve().kernel != law.kernel) continue;
    const auto scale = anchor.scale(size, law);
    if (!scale) continue;
    law.time = law.time.scaled(scale->factor);
    law.anchor = anchor.curve().source;
    if (scale->covered && !edited_) {
      // Six per cent nine times out of ten between measured sizes; the law's own spread beyond.
      law.provenance = scale->exact ? Provenance::measured : Provenance::interpolated;
      law.spread = scale->exact ? 1.03 : 1.06;
    }
    break;
  }
  return law;
}
