// A machine file from what a box says of itself.

#include <fmt/format.h>

#include "calibrate/import/topology/import_topology.hpp"
#include "sim/cli/import.hpp"

namespace {

struct Options {
  std::vector<std::string> files;
  std::string gpu, name, output;
};

Exit import_box(const Options& o) {
  auto box = import_topology(o.files, o.gpu, o.name);
  Diagnostics errors;
  if (!box)
    errors = box.error();
  else if (!o.output.empty() && !write_whole(o.output, machine_text(*box)))
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
  if (!errors.empty()) {
    fmt::print(stderr, "{}{} error{}; nothing was imported\n", errors.render(), errors.size(),
               errors.size() == 1 ? "" : "s");
    return Exit::bad_input;
  }
  for (const auto& note : box->draft.notes) fmt::print(stderr, "note: {}\n", note);
  print_result(o.output.empty() ? machine_text(*box) : summarise(*box));
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->files,
           "of one box: nvidia-smi topo -m, topo -p2p r and w, NCCL_TOPO_DUMP_FILE's XML, "
           "lspci -vv, p2pBandwidthLatencyTest")
      .required();
  line.add("--gpu", o->gpu, "the card, a file of hardware/gpus, where the files do not say");
  line.add("--name", o->name, "name of the machine");
  line.add("-o,--output", o->output, "write the machine to this file instead of stdout");
  return [o] { return import_box(*o); };
}

const Registered<ImportCommand> me(
    "topology", {"a machine file from what a box says of its links",
                 "ceiling import topology topo.txt nccl.xml p2p.txt -o my-box.yaml", setup});

}  // namespace
