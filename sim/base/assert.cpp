#include "sim/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

void assertion_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold. Please report it.\n", file, line,
               what);
  std::abort();
}
