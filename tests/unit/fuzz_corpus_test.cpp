// Every input that the fuzzers start from or once stumbled over ends in a value or in diagnostics.

#include <catch2/catch.hpp>

#include "tests/fuzz/loaders.hpp"
#include "tests/support/process.hpp"

namespace fs = std::filesystem;

TEST_CASE("the corpus of the fuzzers passes their loaders") {
  const process::TemporaryFolder folder;
  const std::string file = (folder.path() / "input").string();
  struct Loader {
    std::string name;
    bool (*load)(std::string_view, const std::string&);
  };
  for (const Loader& loader : {Loader{"scenario", fuzz::scenario}, Loader{"trace", fuzz::trace},
                               Loader{"bench", fuzz::bench}, Loader{"launch", fuzz::launch}}) {
    int read = 0, refused = 0;
    for (const auto& entry :
         fs::directory_iterator(process::source_root() / "tests/fuzz/corpus" / loader.name)) {
      INFO(entry.path());
      bool fine = false;
      CHECK_NOTHROW(fine = loader.load(process::read_text(entry.path()), file));
      ++(fine ? read : refused);
    }
    INFO(loader.name << ": " << read << " read, " << refused << " refused");
    CHECK(read > 0);
    CHECK(read + refused > 3);
  }
}
