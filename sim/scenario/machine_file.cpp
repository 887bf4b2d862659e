#include "sim/scenario/machine_file.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "sim/scenario/data.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

const char* const folder = "hardware/machines";

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The file that calls itself `name` by its topology_id, or `name` itself. `known` gets every name
// a machine goes by.
std::string by_topology_id(const std::string& name, std::vector<std::string>& known) {
  for (const auto& id : data_names(folder)) {
    known.push_back(id);
    const auto path = find_data_file(folder, id, {});
    const auto file = path ? load_yaml(*path, {}) : Expected<Settings>(Settings());
    const Settings* topology = file ? file->find("topology_id") : nullptr;
    if (!topology || !topology->is_scalar()) continue;
    if (lower(topology->text()) == lower(name)) return id;
    known.push_back(topology->text());
  }
  return name;
}

}  // namespace

Expected<MachineFile> load_machine_file(const std::string& name, const Location& wanted_by) {
  MachineFile out{name, {}, {}};
  auto path = find_data_file(folder, name, wanted_by);
  if (!path && name.find('/') == std::string::npos && !name.ends_with(".yaml")) {
    std::vector<std::string> known;
    out.id = by_topology_id(name, known);
    if (out.id != name) {
      path = find_data_file(folder, out.id, wanted_by);
    } else if (!known.empty() && !nearest(name, known).empty()) {
      Diagnostics errors;
      errors.error(wanted_by, fmt::format("there is no '{}' in machines", name),
                   suggestion(name, known));
      return tl::unexpected(errors);
    }
  }
  if (!path) return tl::unexpected(path.error());
  auto file = load_yaml(*path, wanted_by);
  if (!file) return tl::unexpected(file.error());
  out.files.push_back(*path);
  out.settings = std::move(*file);

  const Settings* host = out.settings.find("host");
  if (!host || !host->is_scalar()) return out;
  const auto host_path = find_data_file("hardware/hosts", host->text(), host->where());
  if (!host_path) return tl::unexpected(host_path.error());
  auto host_file = load_yaml(*host_path, host->where());
  if (!host_file) return tl::unexpected(host_file.error());
  out.files.push_back(*host_path);
  out.settings.set("host", std::move(*host_file));
  return out;
}
