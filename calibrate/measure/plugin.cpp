// Loading of plug-ins and the plain data that crosses their seam.

#include "calibrate/measure/plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

namespace fs = std::filesystem;

namespace {

// Room for what a plug-in says. What is no ASCII might be cut in the middle of a letter.
struct Said {
  std::array<char, 4096> text{};
  PluginText room() { return {text.data(), text.size()}; }
  std::string str() const {
    std::string out = text.data();
    for (char& c : out)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    return out;
  }
};

PointState state_of(int code) {
  switch (code) {
    case plugin_ok:
      return PointState::ok;
    case plugin_unverified:
      return PointState::unverified;
    case plugin_unsupported:
      return PointState::unsupported;
    default:
      return PointState::failed;
  }
}
MeasuringBackEnd::Check check_of(int code, const Said& why) {
  return {state_of(code), code == plugin_ok ? "" : why.str()};
}

}  // namespace

tl::expected<Plugin, std::string> Plugin::load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return tl::unexpected(std::string(dlerror()));
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, plugin_entry));
  if (!entry) return tl::unexpected(fmt::format("{} is no plug-in of ceiling", path));
  const PluginApi* api = entry();
  if (api->abi != plugin_abi)
    return tl::unexpected(fmt::format("{} was built for another ceiling (seam {}, here {})", path,
                                      api->abi, plugin_abi));
  return Plugin(api, path);
}
Plugin::~Plugin() {
  if (api_) api_->close();
}
Plugin::Plugin(Plugin&& other) noexcept
    : api_(std::exchange(other.api_, nullptr)), path_(std::move(other.path_)) {}

bool Plugin::offers(const std::string& kernel_class, const std::string& source) const {
  return api_->offers(kernel_class.c_str(), source.c_str()) != 0;
}

MeasuringBackEnd::Check Plugin::open(int device) {
  Said why;
  return check_of(api_->open(device, why.room()), why);
}

std::vector<std::pair<std::string, std::string>> Plugin::facts() const {
  Said said;
  api_->facts(said.room());
  std::vector<std::pair<std::string, std::string>> out;
  const auto text = said.str();
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    if (const auto equals = line.find('='); equals != std::string::npos)
      out.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    at = end + 1;
  }
  return out;
}

MeasuringBackEnd::Check Plugin::prepare(const CalibrationPoint& p, const std::string& source) {
  std::vector<const char*> words;
  for (const auto& [id, value] : p.words) words.insert(words.end(), {id.c_str(), value.c_str()});
  words.push_back(nullptr);
  const PluginPoint point{p.kernel_class.c_str(),
                          source.c_str(),
                          words.data(),
                          p.x.data(),
                          KernelClasses::find(p.kernel_class)->axes.size(),
                          p.pool_bytes,
                          p.launches};
  Said why;
  return check_of(api_->prepare(&point, why.room()), why);
}

tl::expected<std::vector<Sample>, std::string> Plugin::measure(std::size_t count) {
  std::vector<PluginSample> samples(count);
  Said why;
  const int got = api_->measure(samples.data(), static_cast<int>(count), why.room());
  if (got < 0) return tl::unexpected(why.str());
  std::vector<Sample> out;
  for (int i = 0; i < got; ++i) {
    const auto& s = samples[static_cast<std::size_t>(i)];
    out.push_back({s.us, s.sm_clock_mhz, s.throttled != 0, s.stolen != 0});
  }
  return out;
}

tl::expected<std::string, MeasuringBackEnd::Check> Plugin::make_id() {
  Said id, why;
  if (!api_->make_id)
    return tl::unexpected(
        MeasuringBackEnd::Check{PointState::unsupported, "the plug-in knows no ranks"});
  if (const int code = api_->make_id(id.room(), why.room()); code != plugin_ok)
    return tl::unexpected(check_of(code, why));
  return id.str();
}
MeasuringBackEnd::Check Plugin::join(const std::string& id, int rank, int ranks) {
  Said why;
  return check_of(api_->join(id.c_str(), rank, ranks, why.room()), why);
}

std::vector<std::string> plugin_folders() {
  if (const char* named = std::getenv("CEILING_PLUGINS")) return {named};
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code).parent_path();
  if (code) return {};
  return {(program / "plugins").string(),
          (program / ".." / "lib" / "ceiling").lexically_normal().string()};
}

std::string find_plugin(const std::string& name, const std::vector<std::string>& folders) {
  std::error_code code;
  for (const auto& folder : folders)
    if (auto file = fs::path(folder) / fmt::format("libceiling_{}.so", name);
        fs::exists(file, code))
      return file.string();
  return "";
}
