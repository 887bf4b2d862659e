#include "sim/cli/import.hpp"

namespace {

const Registered<Command> me(
    "import", {7, "read what was measured and what a box says of itself; say what is left out",
               "ceiling import aiconfigurator tests/fixtures/kernels/gemm__sglang_0.5.14.csv",
               choose<ImportCommand>});

}  // namespace
