#include <cstddef>
#include <cstdint>

#include "tests/fuzz/loaders.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string file = fuzz::scratch_file();
  fuzz::scenario({reinterpret_cast<const char*>(data), size}, file);
  return 0;
}
