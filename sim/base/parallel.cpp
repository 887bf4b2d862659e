#include "sim/base/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

std::size_t thread_count() {
  if (const char* given = std::getenv("CEILING_THREADS"))
    if (const long n = std::strtol(given, nullptr, 10); n > 0)
      return static_cast<std::size_t>(std::min(n, 1024L));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return static_cast<std::size_t>(std::max(CPU_COUNT(&allowed), 1));
  return std::max(std::thread::hardware_concurrency(), 1U);
}

void parallel_for(std::size_t n, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> thrown(n);
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t threads = std::min(n, thread_count());
    for (std::size_t t = 1; t < threads; ++t) {
      try {
        others.emplace_back(take);
      } catch (const std::system_error&) {
        break;  // no more threads to be had: those there are take the rest
      }
    }
    take();
  }
  for (const auto& exception : thrown)
    if (exception) std::rethrow_exception(exception);
}
