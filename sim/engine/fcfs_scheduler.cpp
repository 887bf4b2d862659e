// The smallest scheduler, as an example: first come, first served, whole prompts, each with room
// for all it may ever make, so that nobody runs out of pages. Prompts run alone, then everybody
// decodes.

#include "sim/engine/engine.hpp"

namespace {

class FcfsScheduler final : public Scheduler {
 public:
  explicit FcfsScheduler(int seats) : seats_(seats) {}

  void next_batch(const SchedulerView& view, BatchPlan& plan) override {
    page_size_ = view.page_size;
    std::int64_t seats = seats_ - view.running;
    bool refused = false;
    for (const RequestView* r : view.waiting) {
      if ((refused = seats == 0 || kept_ + keep(*r) > view.total_pages)) break;
      --seats;
      kept_ += keep(*r);
      view.kv.admit(*r, r->prompt);
      plan.extend.push_back({r->id, r->prompt});
    }
    if (!plan.extend.empty() || view.decoding == 0) return;
    view.kv.grow_running();
    plan.decode = true;
    plan.hold = Hold{.on_arrival = !refused};  // refused now, refused until somebody finishes
  }
  void on_finish(const RequestView& r) override { kept_ -= keep(r); }

 private:
  // One more than it makes: at depth two it takes part in a pass too many.
  std::int64_t keep(const RequestView& r) const {
    return pages_for(r.prompt + r.max_new + 1, page_size_);
  }

  int seats_;
  PageSize page_size_ = 1;
  std::int64_t kept_ = 0;
};

EngineSetup setup(const EngineFacts& f, Section& options) {
  EngineSetup out;
  EngineSizes& sizes = out.sizes;
  sizes.page_size = options.optional<int>("page_size", 16, between(1, 1 << 16));
  sizes.max_running_requests =
      options.optional<int>("max_running_requests", 256, between(1, 1 << 20));
  sizes.mem_fraction_static =
      options.optional<double>("mem_fraction_static", 0.85, between(0.01, 0.999));
  sizes.loop_depth = options.optional("overlap", true) ? 2 : 1;
  sizes.makes_asynchronous = {"overlap", "on"};
  if (options.optional("cuda_graph", f.decode_graphs))
    for (int b = 1; b <= sizes.max_running_requests; b *= 2) sizes.graph_sizes.push_back(b);
  const Bytes beside(static_cast<std::int64_t>(
      f.reserved.real() + f.gpu_memory.real() * (1 - sizes.mem_fraction_static)));
  if (!size_pool(f, beside, sizes, options)) return out;
  sizes.max_request_tokens = std::min(f.context_length, sizes.kv_tokens.count() - 1);
  out.scheduler = std::make_unique<FcfsScheduler>(sizes.max_running_requests);
  return out;
}

const Registered<EngineKind> me("fcfs", {"first come, first served: the smallest example", setup});

}  // namespace
