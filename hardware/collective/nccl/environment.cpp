#include "hardware/collective/nccl/environment.hpp"

#include <algorithm>

namespace {

const std::vector<std::pair<std::string, PathKind>> levels = {
    {"LOC", PathKind::self}, {"NVL", PathKind::nvlink}, {"PIX", PathKind::pix},
    {"PXB", PathKind::pxb},  {"PHB", PathKind::phb},    {"NODE", PathKind::node},
    {"SYS", PathKind::sys}};

const std::vector<std::pair<std::string, CpuKind>> cpus = {
    {"amd", CpuKind::amd},
    {"intel_skylake", CpuKind::intel_skylake},
    {"intel_sapphire_rapids", CpuKind::intel_sapphire_rapids},
    {"intel_emerald_rapids", CpuKind::intel_emerald_rapids}};

template <class Value>
std::vector<std::string> words_of(const std::vector<std::pair<std::string, Value>>& table) {
  std::vector<std::string> out;
  for (const auto& [word, value] : table) out.push_back(word);
  return out;
}

}  // namespace

const std::vector<std::string>& p2p_levels() {
  static const std::vector<std::string> words = words_of(levels);
  return words;
}

PathKind parse_p2p_level(const std::string& word) {
  for (const auto& [known, level] : levels)
    if (known == word) return level;
  return PathKind::pxb;  // NCCL's own
}

NcclEnvironment read_nccl_environment(Section& section) {
  NcclEnvironment env;
  env.version = section.optional<std::string>("version", "2.27.3");
  const std::string cpu = section.word("cpu", words_of(cpus), "amd");
  for (const auto& [word, kind] : cpus)
    if (word == cpu) env.cpu = kind;
  env.p2p_disable = section.optional("p2p_disable", false);
  if (section.has("p2p_level"))
    env.p2p_level = parse_p2p_level(section.word("p2p_level", p2p_levels()));
  env.min_nchannels = section.maybe<int>("min_nchannels", between(1, 64));
  env.max_nchannels = section.maybe<int>("max_nchannels", between(1, 64));
  if (section.has("proto"))
    env.proto = section.word("proto", {"LL", "Simple"}) == "LL" ? Protocol::ll : Protocol::simple;
  env.tree = section.word("algo", {"Ring", "Tree"}, "Ring") == "Tree";
  if (const Settings* file = section.take("graph_file")) {
    Section s(*file, "nccl.graph_file", section.reading());
    env.graph_file = NcclEnvironment::GraphFile{
        s.required<BytesPerSecond>("bus", plausible_bandwidth()).count() / 1e9,
        s.required<int>("channels", between(1, 64))};
  }
  return env;
}
