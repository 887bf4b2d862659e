// A KV pool without a prefix cache: pages are counted and nothing outlives its request.

#include "sim/base/assert.hpp"
#include "sim/engine/kv_cache.hpp"

namespace {

class PlainPool final : public KvCache {
 public:
  using KvCache::KvCache;

  std::int64_t match(const Content&, std::int64_t) override { return 0; }
  void hold(KvHold& hold, const Content&, std::int64_t tokens) override {
    SIM_ASSERT(hold.handle < 0 && tokens == 0);
    hold = {0, 0, 0};
  }
  void let_go(KvHold& hold) override { hold = {}; }
  void publish(KvHold&, const Content&, std::int64_t) override {}
  void release(KvHold& hold, const Content&, std::int64_t, bool) override {
    unused_ += hold.pages(page_size());
    SIM_ASSERT(available() <= total());
    hold = {};
  }

 private:
  void hand_out(std::int64_t pages) override { unused_ -= pages; }
};

}  // namespace

std::unique_ptr<KvCache> plain_kv_pool(std::int64_t pages, PageSize page_size) {
  return std::make_unique<PlainPool>(pages, page_size);
}

const Registered<KvCacheFactory> me("none",
                                    [](std::int64_t pages, PageSize page_size, const std::string&) {
                                      return plain_kv_pool(pages, page_size);
                                    });
