#pragma once

#include "models/cost/kernel_tables.hpp"
#include "sim/base/settings.hpp"

/// What a back end is called that answers from the tables of `engine.kernel_tables`.
inline constexpr const char* box_back_end = "box";

/// Times of the box's collectives, beside its kernel tables.
inline constexpr const char* box_collectives = "collectives.yaml";
/// That file in the folder; "" when it has none.
std::string box_collectives_of(const Settings& folder);

/// Makes a build answer from the tables in `folder` (measured on the very box: ceiling calibrate
/// fit) for each kernel that they cover; the rest stays as the build has it. Adds the files read.
/// Errors: no such folder, tables of another GPU, no table in it that a pass is priced from, a
/// damaged one.
void use_box_tables(const Settings& folder, const GpuSpec& gpu, Settings& build, Settings& laws,
                    std::vector<std::string>& files, Diagnostics& errors);
