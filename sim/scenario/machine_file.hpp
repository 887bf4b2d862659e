#pragma once

#include <string>
#include <vector>

#include "sim/base/settings.hpp"

/// A machine's settings with its host filled in: what read_machine reads.
struct MachineFile {
  std::string id;  // the name of the file, or its path as it was given
  Settings settings;
  std::vector<std::string> files;  // every file that was read
};

/// A machine of hardware/machines by the name of its file or by its `topology_id` in any case
/// ("T04", "t04"), or by path. `host: NAME` is replaced by the map in hardware/hosts/NAME.yaml. An
/// unknown name is an error that lists what there is.
Expected<MachineFile> load_machine_file(const std::string& name, const Location& wanted_by);
