#pragma once

#include <string>
#include <vector>

#include "sim/base/settings.hpp"

/// The folder with hardware/, models/ and scenarios/: $CEILING_DATA, ../share/ceiling beside the
/// binary, or the first folder above the binary or above the working folder that has them. Empty
/// when there is none.
std::string data_folder();

/// A file by name in a folder of the data ("hardware/machines", "8x-rtx-pro-6000-kvm") or by path:
/// what has a slash or ends in .yaml is a path, relative to the file that names it, else to the
/// working directory. An unknown name is an error that lists what there is.
Expected<std::string> find_data_file(const std::string& folder, const std::string& name,
                                     const Location& wanted_by);

/// Names of the files in a folder of the data, in order, without their ending.
std::vector<std::string> data_names(const std::string& folder);

/// The file in hardware/gpus, without its ending, that describes the card known as `name`: by the
/// file's own name or by one of its `aliases` ("h200_sxm", "NVIDIA H200"), whatever the case and
/// the signs between the words. An unknown card is an error with the nearest name.
Expected<std::string> find_gpu(const std::string& name, const Location& wanted_by);
