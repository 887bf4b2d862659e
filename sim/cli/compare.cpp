#include <fmt/format.h>

#include "sim/cli/command.hpp"

namespace {

struct Options : CommonOptions {
  std::vector<std::string> what;
};

// The base with each +PATH=VALUE alone, and with all of them when there are several.
Expected<std::vector<Scenario>> variants(const Options& o, const std::vector<Override>& common) {
  Diagnostics errors;
  std::vector<Override> changes;
  std::vector<Scenario> out;
  const auto load = [&](const std::string& file, std::vector<Override> with,
                        const std::string& name) {
    with.insert(with.begin(), common.begin(), common.end());
    auto loaded = load_scenarios(file, with);
    if (!loaded) return errors.append(loaded.error());
    out.push_back(loaded->front());
    if (!name.empty()) out.back().name = name;
  };
  std::string base;
  for (const auto& what : o.what) {
    if (!what.starts_with('+')) {
      if (base.empty()) base = what;
      load(what, {}, "");
    } else if (const auto change = parse_override(what.substr(1))) {
      changes.push_back(*change);
    } else {
      errors.error({}, fmt::format("'{}' is not a change", what),
                   "write +PATH=VALUE, as +engine.cuda_graph=on");
    }
  }
  if (base.empty()) errors.error({}, "compare needs a scenario file to start from");
  if (!errors.empty()) return tl::unexpected(errors);
  const auto label = [](const Override& c) { return fmt::format("+{}={}", c.path, c.value); };
  for (const auto& change : changes) load(base, {change}, label(change));
  if (changes.size() > 1) load(base, changes, "+all of these");
  if (!errors.empty()) return tl::unexpected(errors);
  return out;
}

Exit compare(const Options& o) {
  Diagnostics errors;
  const auto common = read_overrides(o.set, errors);
  if (!errors.empty()) return report_errors(errors);
  const auto scenarios = variants(o, common);
  if (!scenarios) return report_errors(scenarios.error());
  return predict_and_print(*scenarios, o, {true, true, false}, false, render_comparison);
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("WHAT", o->what, "scenario files, and changes to the first: +PATH=VALUE").required();
  add_common(line, *o);
  return [o] { return compare(*o); };
}

const Registered<Command> me(
    "compare",
    {3, "what a change would bring",
     "ceiling compare scenarios/seed/64-at-16.yaml +machine_edits.p2p=on +engine.cuda_graph=on",
     setup});

}  // namespace
