// A KV pool without a prefix cache: pages are counted and nothing outlives its request.

#include "sim/base/assert.hpp"
#include "sim/engine/kv_cache.hpp"

namespace {

class PlainPool final : public KvCache {
 public:
  PlainPool(std::int64_t pages, PageSize page_size)
      : total_(pages), free_(pages), page_size_(page_size) {}

  std::int64_t available() const override { return free_; }
  std::int64_t total() const override { return total_; }
  PageSize page_size() const override { return page_size_; }
  std::int64_t match(const Content&, std::int64_t) override { return 0; }
  void hold(KvHold& hold, const Content&, std::int64_t tokens) override {
    SIM_ASSERT(hold.handle < 0 && tokens == 0);
    hold = {0, 0, 0};
  }
  void let_go(KvHold& hold) override { hold = {}; }
  void take(std::int64_t pages) override {
    free_ -= pages;
    SIM_ASSERT(free_ >= 0);
  }
  void publish(KvHold&, const Content&, std::int64_t) override {}
  void release(KvHold& hold, const Content&, std::int64_t, bool) override {
    free_ += hold.pages(page_size_);
    SIM_ASSERT(free_ <= total_);
    hold = {};
  }
  std::int64_t unused() const override { return free_; }

 private:
  std::int64_t total_, free_;
  PageSize page_size_;
};

}  // namespace

std::unique_ptr<KvCache> plain_kv_pool(std::int64_t pages, PageSize page_size) {
  return std::make_unique<PlainPool>(pages, page_size);
}

const Registered<KvCacheFactory> me("none",
                                    [](std::int64_t pages, PageSize page_size, const std::string&) {
                                      return plain_kv_pool(pages, page_size);
                                    });
