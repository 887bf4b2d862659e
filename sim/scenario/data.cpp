#include "sim/scenario/data.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "hardware/gpu.hpp"
#include "sim/scenario/yaml.hpp"

namespace fs = std::filesystem;

namespace {

// "RTX PRO 6000", "rtx_pro_6000" and "rtx-pro-6000" are one name.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string data_folder() {
  const auto holds_data = [](const fs::path& p) {
    std::error_code code;
    return fs::is_directory(p / "hardware" / "gpus", code) &&
           fs::is_directory(p / "models" / "zoo", code);
  };
  if (const char* given = std::getenv("CEILING_DATA"); given && *given) return given;
  std::error_code code;
  const fs::path binary = fs::read_symlink("/proc/self/exe", code);
  const fs::path installed = binary.parent_path().parent_path() / "share" / "ceiling";
  if (holds_data(installed)) return installed.string();
  for (const fs::path& from : {binary.parent_path(), fs::current_path(code)})
    for (fs::path p = from; p.has_relative_path(); p = p.parent_path())
      if (holds_data(p)) return p.string();
  return {};
}

Expected<std::string> find_data_file(const std::string& folder, const std::string& name,
                                     const Location& wanted_by) {
  std::error_code code;
  Diagnostics errors;
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".yaml");
  if (is_path) {
    std::vector<fs::path> tries;
    if (wanted_by.source) tries.push_back(fs::path(wanted_by.source->name).parent_path() / name);
    tries.emplace_back(name);
    tries.push_back(fs::path(data_folder()) / name);
    for (const auto& p : tries)
      if (fs::is_regular_file(p, code)) return p.string();
    errors.error(wanted_by, fmt::format("there is no file '{}'", name));
    return tl::unexpected(errors);
  }
  const fs::path p = fs::path(data_folder()) / folder / (name + ".yaml");
  if (!data_folder().empty() && fs::is_regular_file(p, code)) return p.string();
  const auto what = folder == "models/zoo" ? "models" : folder.substr(folder.rfind('/') + 1);
  if (data_folder().empty())
    errors.error(wanted_by, fmt::format("no data folder found while looking for '{}'", name),
                 "set CEILING_DATA to the folder that holds hardware/ and models/");
  else
    errors.error(wanted_by, fmt::format("there is no '{}' in {}", name, what),
                 suggestion(name, data_names(folder)));
  return tl::unexpected(errors);
}

std::vector<std::string> data_names(const std::string& folder) {
  std::vector<std::string> out;
  if (data_folder().empty()) return out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(fs::path(data_folder()) / folder, code))
    if (entry.path().extension() == ".yaml") out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

Expected<std::string> find_gpu(const std::string& name, const Location& wanted_by) {
  const std::string folder = "hardware/gpus";
  std::vector<std::string> known;
  Diagnostics errors;
  for (const auto& id : data_names(folder)) {
    if (plain(id) == plain(name)) return id;
    known.push_back(id);
    const auto file = load_yaml((fs::path(data_folder()) / folder / (id + ".yaml")).string(), {});
    if (!file) return tl::unexpected(file.error());
    Reading reading;
    for (const auto& alias : read_gpu(id, *file, reading).aliases) {
      if (plain(alias) == plain(name)) return id;
      known.push_back(alias);
    }
  }
  if (known.empty())
    errors.error(wanted_by, fmt::format("no data folder found while looking for GPU '{}'", name),
                 "set CEILING_DATA to the folder that holds hardware/ and models/");
  else
    errors.error(wanted_by, fmt::format("there is no GPU '{}'", name),
                 suggestion(name, nearest(name, known).empty() ? data_names(folder) : known));
  return tl::unexpected(errors);
}
