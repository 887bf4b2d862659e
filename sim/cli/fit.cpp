#include "sim/cli/fit.hpp"

namespace {

const Registered<Command> me(
    "fit", {6, "numbers of a build from measured rows",
            "ceiling fit build sglang-2026-03-b12x-sm120 scenarios/measured/glm-5-sglang-b12x.yaml",
            choose<FitKind>});

}  // namespace
