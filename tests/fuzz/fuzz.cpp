#include <cstddef>
#include <cstdint>

#include "tests/fuzz/loaders.hpp"
#include "tests/support/process.hpp"

/// CEILING_FUZZ_LOADER is one of the functions in loaders.hpp.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const process::TemporaryFolder folder;
  static const std::string file = (folder.path() / "input").string();
  fuzz::CEILING_FUZZ_LOADER({reinterpret_cast<const char*>(data), size}, file);
  return 0;
}
