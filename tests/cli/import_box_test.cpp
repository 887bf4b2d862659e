// `ceiling import topology` and `import nccl-tests`: what they print, what they write, how they
// end.

#include <catch2/catch.hpp>

#include "tests/support/box_texts.hpp"
#include "tests/support/process.hpp"

namespace {

using process::run;

const std::string server = "rtx-pro-6000-server";

std::string topo() {
  return "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-13\t0\nGPU1\tPHB\t X "
         "\t0-13\t0\n";
}

void check_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    INFO("expected: " << part << "\nin: " << text);
    CHECK(text.find(part) != std::string::npos);
  }
}

std::size_t files_in(const process::TemporaryFolder& folder) {
  std::size_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    out += entry.is_regular_file();
  return out;
}

}  // namespace

TEST_CASE("import topology puts the machine on stdout and the doubts on stderr") {
  const process::TemporaryFolder folder;
  const auto file = folder.write("topo.txt", topo());
  const auto o = run({"import", "topology", file, "--gpu", server, "--name", "my box"});
  CHECK(o.code == 0);
  check_says(o.out, {"schema: 1\nname: \"my box\"\ngpu: rtx-pro-6000-server\n", "gpu0..1: gpu",
                     "#   - whether GPUs reach each other"});
  check_says(o.err, {"note: whether GPUs reach each other", "note: host costs"});
  const auto out = (folder.path() / "box.yaml").string();
  const auto w = run({"import", "topology", file, "--gpu", server, "--name", "my box", "-o", out});
  CHECK(w.code == 0);
  check_says(w.out, {"my box", "2 GPUs (rtx-pro-6000-server)", "P2P       off"});
  CHECK(process::read_text(out) == o.out);
}

TEST_CASE("import nccl-tests puts the table on stdout and what it left out on stderr") {
  const process::TemporaryFolder folder;
  const std::string good =
      "        4096          1024     float     sum      -1    14.90    0.27    0.41       0    "
      "14.80    0.28    0.42       0";
  const auto file = folder.write("run.txt", box_texts::all_reduce_perf(4, {good, "  8192  2048"}));
  const auto o = run({"import", "nccl-tests", file});
  CHECK(o.code == 0);
  check_says(o.out, {"- op: all_reduce", "gpus: 4", "[4 KiB, 14.9 us]"});
  check_says(o.err, {"left out: 1 row: the line is cut off (" + file});
  const auto out = (folder.path() / "t.yaml").string();
  check_says(run({"import", "nccl-tests", file, "-o", out}).out, {"2 rows read, 1 kept"});
  CHECK(process::read_text(out) == o.out);
}

TEST_CASE("bad input ends with 2 and leaves no file and nothing on stdout") {
  const std::string all_reduce = box_texts::all_reduce_perf(2, {});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"topology", topo().substr(0, 60)},
      {"topology", "<system version=\"1\"><cpu numaid=\"0\">"},
      {"topology", std::string("\x01\x7f\xff junk", 8)},
      {"topology", box_texts::guest_lspci(2).substr(0, 200)},
      {"nccl-tests", all_reduce},
      {"nccl-tests", "{\"results\": ["},
      {"nccl-tests", std::string("\x02\xfe", 2)}};
  for (const auto& [form, text] : cases) {
    const process::TemporaryFolder folder;
    const auto file = folder.write("in.txt", text);
    INFO(form << ": " << text);
    auto arguments =
        std::vector<std::string>{"import", form, file, "-o", (folder.path() / "out.yaml").string()};
    if (form == "topology") arguments.insert(arguments.end(), {"--gpu", server});
    const auto o = run(arguments);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    check_says(o.err, {"error: ", "nothing was imported"});
    CHECK(files_in(folder) == 1);
  }
}

TEST_CASE("an output that cannot be written is an error of both") {
  const process::TemporaryFolder folder;
  const auto file = folder.write("topo.txt", topo());
  const auto o = run({"import", "topology", file, "--gpu", server, "-o", "/nowhere/box.yaml"});
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  check_says(o.err, {"'/nowhere/box.yaml' cannot be written"});
}

TEST_CASE("help of the new forms fits a screen and ends with an example") {
  for (const char* form : {"topology", "nccl-tests"}) {
    const auto o = run({"import", form, "--help"});
    CHECK(o.code == 0);
    CHECK(process::lines(o.out).size() <= 24);
    check_says(o.out, {std::string("example: ceiling import ") + form});
  }
}
