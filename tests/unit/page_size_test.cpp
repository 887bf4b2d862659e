#include "sim/engine/page_size.hpp"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

TEST_CASE("dividing by a page size is dividing") {
  static_assert(std::int64_t{17} / PageSize(4) == 4 && std::int64_t{17} % PageSize(4) == 1);
  static_assert(PageSize(1) == 1 && pages_for(17, 4) == 5 && pages_for(16, 4) == 4);
  CHECK(rc::check("around multiples, up to 2^48", [] {
    const int page = *rc::gen::oneOf(rc::gen::inRange(1, 100), rc::gen::inRange(1, 65'537),
                                     rc::gen::element(1, 2, 65'535, 65'536));
    const auto most = (std::int64_t{1} << *rc::gen::inRange(17, 49)) - 1;
    const auto multiple = *rc::gen::inRange<std::int64_t>(0, most / page + 1) * page;
    for (std::int64_t n = std::max<std::int64_t>(multiple - 2, 0);
         n <= std::min(multiple + 2, most); ++n) {
      RC_ASSERT(n / PageSize(page) == n / page);
      RC_ASSERT(n % PageSize(page) == n % page);
      RC_ASSERT(pages_for(n, page) == (n + page - 1) / page);
    }
    RC_ASSERT(most / PageSize(page) == most / page);
  }));
}
