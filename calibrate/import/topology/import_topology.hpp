#pragma once

#include <string>
#include <vector>

#include "calibrate/import/topology/box_draft.hpp"

/// A box that was put together from files, ready to be written.
struct ImportedBox {
  std::string name;
  std::string gpu;  // a file in hardware/gpus
  BoxDraft draft;
};

/// Reads the files of one box, each recognised by its content, and merges them. `gpu` and `name`
/// may be empty: the files tell the card, or an error asks for it. Every error of every file is
/// reported at once.
Expected<ImportedBox> import_topology(const std::vector<std::string>& paths, const std::string& gpu,
                                      const std::string& name);

/// The box as a file of hardware/machines, with what is unknown as comments.
std::string machine_text(const ImportedBox& box);

/// What was found, for people: a few lines.
std::string summarise(const ImportedBox& box);
