#include "sim/workload/workload.hpp"

namespace {

class ListSource final : public RequestSource {
 public:
  explicit ListSource(std::shared_ptr<const std::vector<PlannedRequest>> list)
      : list_(std::move(list)) {}
  bool next(PlannedRequest& request) override {
    if (next_ == list_->size()) return false;
    request = (*list_)[next_++];
    return true;
  }

 private:
  std::shared_ptr<const std::vector<PlannedRequest>> list_;
  std::size_t next_ = 0;
};

}  // namespace

void WorkloadPlan::set(std::vector<PlannedRequest> list) {
  auto shared = std::make_shared<const std::vector<PlannedRequest>>(std::move(list));
  set([shared] { return std::make_unique<ListSource>(shared); });
}

void WorkloadPlan::set(std::function<std::unique_ptr<RequestSource>()> fresh) {
  source = std::move(fresh);
  requests = input_tokens = output_tokens = 0;
  PlannedRequest r;
  for (const auto all = source(); all->next(r);) {
    ++requests;
    input_tokens += r.input;
    output_tokens += r.output;
    last_send = r.send_at;
  }
}

Content prompt_of(std::initializer_list<Segment> runs) {
  Content out;
  for (const Segment& run : runs) out.append(run);
  return out;
}

std::vector<PlannedRequest> all_requests(const WorkloadPlan& plan) {
  std::vector<PlannedRequest> out;
  PlannedRequest r;
  for (const auto all = plan.source(); all->next(r);) out.push_back(r);
  return out;
}
