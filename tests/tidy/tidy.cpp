// Holds the shape of the house: which folder may include which, where a third-party library may
// show, who may end the process. Reads the sources as text, so it needs no compiler and sees every
// file, also those a build leaves out.
//
//   ceiling_tidy ROOT          prints "path:line: error: ..." for each violation; 1 if there is any
//   ceiling_tidy --self-test   the same rules against small trees made to break them

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

// ---- the rules ----

/// Top to bottom: a folder may include itself and the folders before it, nothing after it.
/// A file belongs to the longest folder that holds it.
constexpr std::string_view kLayers[] = {
    "sim/base",     "hardware/topology", "hardware/collective", "hardware",     "models/cost",
    "models/graph", "sim/step",          "sim/engine",          "sim/workload", "sim/metrics",
    "sim/report",   "sim/scenario",      "calibrate",           "sim/cli",
};

constexpr std::string_view kRoots[] = {"sim", "hardware", "models", "calibrate"};

/// A library that may show only in some places, so that replacing it stays cheap.
struct LibraryRule {
  std::string_view name;
  std::vector<std::string_view> headers;  // prefixes of the included path
  std::vector<std::string_view> places;   // prefixes of the including path
  bool sources_only = false;              // a .cpp, never a .hpp
  std::size_t files_max = 0;              // 0: no limit
};

const std::vector<LibraryRule> kLibraries = {
    {"yaml-cpp", {"yaml-cpp/"}, {"sim/scenario/"}, true, 1},
    {"CLI11", {"CLI/"}, {"sim/cli/"}},
    {"Boost.Graph", {"boost/graph/"}, {"hardware/topology/"}, true, 2},
    {"nlohmann-json",
     {"nlohmann/"},
     {"sim/base/json", "sim/report/", "calibrate/import/", "sim/cli/import_steps",
      "sim/scenario/launch_command"}},
    {"Eigen", {"Eigen/"}, {"calibrate/"}},
    {"CUDA",
     {"cuda", "cublas", "cudnn", "curand", "cupti", "cute/", "cutlass/", "cooperative_groups",
      "mma.h", "nccl", "nvml", "nvtx"},
     {"calibrate/"}},
};

/// Only the command line ends the process, and the assertion for our own mistakes. The probes in
/// calibrate/bench are programs of their own.
constexpr std::string_view kEnders[] = {"exit",       "_exit", "_Exit",
                                        "quick_exit", "abort", "terminate"};
constexpr std::string_view kEndPlaces[] = {"sim/cli/", "sim/base/assert", "calibrate/bench/"};

// ---- reading ----

struct Violation {
  std::string path;
  std::size_t line = 0;
  std::string text;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

template <typename Prefixes>
bool starts_with_any(std::string_view text, const Prefixes& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

/// The same text, each character of a comment or (if asked) of a literal replaced by a space.
/// Lines and columns stay where they are.
std::string blanked(std::string_view text, bool blank_literals) {
  std::string out(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < out.size(); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  std::size_t i = 0;
  while (i < text.size()) {
    const std::string_view rest = text.substr(i);
    std::size_t end = i + 1;
    if (rest.starts_with("//")) {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (rest.starts_with("/*")) {
      const std::size_t close = text.find("*/", i + 2);
      end = close == std::string_view::npos ? text.size() : close + 2;
      blank(i, end);
    } else if (rest.starts_with("R\"")) {
      const std::size_t open = std::min(text.find('(', i), text.size());
      const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      const std::size_t found = text.find(close, open);
      end = found == std::string_view::npos ? text.size() : found + close.size();
      if (blank_literals) blank(i, end);
    } else if (text[i] == '"' || text[i] == '\'') {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, text.size());
      if (blank_literals) blank(i, end);
    } else if (std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      // A number swallows its digit separators: 1'000 opens no character literal.
      while (end < text.size() && (is_word(text[end]) || text[end] == '\'')) ++end;
    } else if (is_word(text[i])) {
      // A word, up to the R of a raw string.
      while (end < text.size() && is_word(text[end]) && !text.substr(end).starts_with("R\"")) ++end;
    }
    i = end;
  }
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The path of an #include line, or nothing when the line is something else.
std::optional<std::string_view> included_path(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = trimmed(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = trimmed(line.substr(std::string_view("include").size()));
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return std::nullopt;
  const std::size_t end = line.find(line[0] == '<' ? '>' : '"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return line.substr(1, end - 1);
}

/// A call of the word: not a member, not a part of a longer word.
bool calls(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    const std::string_view before = line.substr(0, at);
    const std::string_view after = trimmed(line.substr(at + word.size()));
    const bool is_part = !before.empty() && is_word(before.back());
    const bool is_member = before.ends_with('.') || before.ends_with("->");
    if (!is_part && !is_member && after.starts_with('(')) return true;
  }
  return false;
}

// ---- checking ----

/// Position in kLayers, or nothing for a path outside all of them.
std::optional<std::size_t> layer_of(std::string_view path) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < std::size(kLayers); ++i) {
    const std::string_view folder = kLayers[i];
    const bool inside = path.starts_with(folder) && path.substr(folder.size()).starts_with('/');
    if (inside && (!best || folder.size() > kLayers[*best].size())) best = i;
  }
  return best;
}

class Checker {
 public:
  void check(const std::string& path, const std::string& text) {
    const std::string code = blanked(text, false);
    const std::string bare = blanked(text, true);
    const std::vector<std::string_view> code_lines = lines_of(code);
    const std::vector<std::string_view> bare_lines = lines_of(bare);

    if (path.ends_with(".hpp")) check_pragma_once(path, bare_lines);
    if (path.starts_with("tests/")) return;

    const std::optional<std::size_t> layer = layer_of(path);
    if (!layer) report(path, 1, path + " belongs to no layer");
    for (std::size_t i = 0; i < code_lines.size(); ++i) {
      const bool is_directive = trimmed(bare_lines[i]).starts_with('#');
      const auto included = is_directive ? included_path(code_lines[i]) : std::nullopt;
      if (included) {
        const bool is_quoted = code_lines[i].find('"') < code_lines[i].find('<');
        if (layer) check_layer(path, i + 1, *layer, *included, is_quoted);
        check_library(path, i + 1, *included);
      } else {
        check_end(path, i + 1, bare_lines[i]);
      }
    }
  }

  const std::vector<Violation>& violations() const { return violations_; }

 private:
  void report(const std::string& path, std::size_t line, std::string text) {
    violations_.push_back({path, line, std::move(text)});
  }

  void check_pragma_once(const std::string& path, const std::vector<std::string_view>& lines) {
    const bool found = std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
      return trimmed(line) == "#pragma once";
    });
    if (!found) report(path, 1, "a header needs #pragma once");
  }

  void check_layer(const std::string& path, std::size_t line, std::size_t layer,
                   std::string_view included, bool is_quoted) {
    const std::string name(included);
    const std::string_view root = included.substr(0, included.find('/'));
    if (root == "tests") {
      report(path, line, std::string(kLayers[layer]) + " may not include tests (" + name + ")");
      return;
    }
    if (std::find(std::begin(kRoots), std::end(kRoots), root) == std::end(kRoots)) {
      if (is_quoted) {
        report(path, line,
               "\"" + name + "\": our headers are named from the root of the project, " +
                   "others go in <>");
      }
      return;
    }
    const std::optional<std::size_t> target = layer_of(included);
    if (!target) {
      report(path, line, name + " belongs to no layer");
    } else if (*target > layer) {
      report(path, line,
             std::string(kLayers[layer]) + " may not include " + std::string(kLayers[*target]) +
                 " (" + name + ")");
    }
  }

  void check_library(const std::string& path, std::size_t line, std::string_view included) {
    for (const LibraryRule& rule : kLibraries) {
      if (!starts_with_any(included, rule.headers)) continue;
      const std::string name(rule.name);
      if (!starts_with_any(path, rule.places) || (rule.sources_only && !path.ends_with(".cpp"))) {
        std::string places;
        for (const std::string_view place : rule.places) {
          places += (places.empty() ? "" : ", ") + std::string(place);
        }
        report(path, line,
               path + " may not include " + name + ": only " +
                   (rule.sources_only ? "a .cpp of " : "") + places);
        continue;
      }
      std::set<std::string>& users = users_[name];
      users.insert(path);
      if (rule.files_max != 0 && users.size() > rule.files_max) {
        report(path, line,
               path + " may not include " + name + ": at most " + std::to_string(rule.files_max) +
                   " file(s) may, and " + *users.begin() + " does already");
      }
    }
  }

  void check_end(const std::string& path, std::size_t line, std::string_view code) {
    if (starts_with_any(path, kEndPlaces)) return;
    for (const std::string_view word : kEnders) {
      if (calls(code, word)) {
        report(path, line,
               "only sim/cli ends the process: no " + std::string(word) +
                   "(), return an Expected or use the assertion");
      }
    }
  }

  std::vector<Violation> violations_;
  std::map<std::string, std::set<std::string>> users_;
};

std::vector<Violation> check_tree(const fs::path& root) {
  constexpr std::string_view extensions[] = {".hpp", ".cpp", ".h", ".cu", ".cuh", ".inc"};
  std::vector<fs::path> files;
  for (const char* folder : {"sim", "hardware", "models", "calibrate", "tests"}) {
    if (!fs::is_directory(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (entry.is_regular_file() && std::find(std::begin(extensions), std::end(extensions),
                                               extension) != std::end(extensions)) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());

  Checker checker;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    checker.check(file.lexically_relative(root).generic_string(), text);
  }
  return checker.violations();
}

std::string to_string(const Violation& violation) {
  return violation.path + ":" + std::to_string(violation.line) + ": error: " + violation.text;
}

// ---- self-test ----

/// A tree of files, and the violations it must yield: the start of each line, in order.
struct Case {
  std::string_view name;
  std::map<std::string, std::string> files;
  std::vector<std::string> expected;
};

const std::vector<Case> kCases = {
    {"a layer includes itself and those above it",
     {{"sim/engine/a.hpp", "#pragma once\n#include \"sim/engine/b.hpp\"\n#include <vector>\n"},
      {"sim/engine/b.hpp", "#pragma once\n#include \"sim/base/time.hpp\"\n"},
      {"sim/base/time.hpp", "// one idea\n#pragma once\n"},
      {"sim/report/c.cpp", "#include \"sim/workload/w.hpp\"\n#include <nlohmann/json.hpp>\n"},
      {"hardware/h.cpp", "#include \"hardware/topology/t.hpp\"\n"},
      {"hardware/topology/t.cpp", "#include <boost/graph/adjacency_list.hpp>\n"},
      {"calibrate/bench/p.cu", "#include <cuda_runtime.h>\nvoid f() { exit(1); }\n"},
      {"sim/cli/m.cpp", "#include <CLI/CLI.hpp>\n#include \"sim/scenario/s.hpp\"\n"}},
     {}},
    {"no layer includes one below it",
     {{"sim/base/a.cpp", "#include <vector>\n#include \"sim/step/loop.hpp\"\n"},
      {"models/cost/b.cpp", "  #  include \"sim/step/step.hpp\"  // why\n"},
      {"sim/engine/c.cpp", "#include <sim/cli/commands.hpp>\n"}},
     {"models/cost/b.cpp:1: error: models/cost may not include sim/step",
      "sim/base/a.cpp:2: error: sim/base may not include sim/step",
      "sim/engine/c.cpp:1: error: sim/engine may not include sim/cli"}},
    {"the subfolders of hardware stand above it",
     {{"hardware/topology/a.cpp", "#include \"hardware/gpu.hpp\"\n"},
      {"hardware/topology/b.cpp", "#include \"hardware/collective/ring.hpp\"\n"},
      {"hardware/collective/c.cpp", "#include \"hardware/topology/graph.hpp\"\n"}},
     {"hardware/topology/a.cpp:1: error: hardware/topology may not include hardware (",
      "hardware/topology/b.cpp:1: error: hardware/topology may not include hardware/collective"}},
    {"files and includes outside every layer are found",
     {{"sim/stray.cpp", "int x;\n"},
      {"sim/base/a.cpp", "#include \"sim/nowhere/x.hpp\"\n#include \"b.hpp\"\n"},
      {"sim/base/c.cpp", "#include \"tests/x.hpp\"\n"}},
     {"sim/base/a.cpp:1: error: sim/nowhere/x.hpp belongs to no layer",
      "sim/base/a.cpp:2: error: \"b.hpp\": our headers are named from the root",
      "sim/base/c.cpp:1: error: sim/base may not include tests",
      "sim/stray.cpp:1: error: sim/stray.cpp belongs to no layer"}},
    {"each library stays in its place",
     {{"sim/base/a.cpp", "#include <yaml-cpp/yaml.h>\n#include <nlohmann/json.hpp>\n"},
      {"sim/base/json.cpp", "#include <nlohmann/json.hpp>\n"},
      {"sim/report/b.cpp", "#include <CLI/CLI.hpp>\n"},
      {"sim/scenario/c.hpp", "#pragma once\n#include <yaml-cpp/yaml.h>\n"},
      {"models/cost/d.cpp", "#include <Eigen/Dense>\n#include <cuda_runtime.h>\n"},
      {"hardware/topology/e.hpp", "#pragma once\n#include <boost/graph/graph_traits.hpp>\n"}},
     {"hardware/topology/e.hpp:2: error: hardware/topology/e.hpp may not include Boost.Graph",
      "models/cost/d.cpp:1: error: models/cost/d.cpp may not include Eigen",
      "models/cost/d.cpp:2: error: models/cost/d.cpp may not include CUDA",
      "sim/base/a.cpp:1: error: sim/base/a.cpp may not include yaml-cpp",
      "sim/base/a.cpp:2: error: sim/base/a.cpp may not include nlohmann-json",
      "sim/report/b.cpp:1: error: sim/report/b.cpp may not include CLI11",
      "sim/scenario/c.hpp:2: error: sim/scenario/c.hpp may not include yaml-cpp"}},
    {"a hidden library has few users",
     {{"sim/scenario/a.cpp", "#include <yaml-cpp/yaml.h>\n#include <yaml-cpp/mark.h>\n"},
      {"sim/scenario/b.cpp", "#include <yaml-cpp/yaml.h>\n"},
      {"hardware/topology/a.cpp", "#include <boost/graph/adjacency_list.hpp>\n"},
      {"hardware/topology/b.cpp", "#include <boost/graph/adjacency_list.hpp>\n"},
      {"hardware/topology/c.cpp", "#include <boost/graph/adjacency_list.hpp>\n"}},
     {"hardware/topology/c.cpp:1: error: hardware/topology/c.cpp may not include Boost.Graph",
      "sim/scenario/b.cpp:1: error: sim/scenario/b.cpp may not include yaml-cpp"}},
    {"only the command line ends the process",
     {{"sim/engine/a.cpp", "void f() {\n  std::exit(1);\n  abort ();\n}\n"},
      {"sim/engine/b.cpp",
       "// exit(1)\nvoid on_exit(int);\nauto s = \"exit(1)\"; /* abort() */\n"
       "auto n = 1'000; auto r = R\"x(abort() \")x\"; auto c = '\"';\n"
       "void g() { loop.exit(); loop->abort(); }\n"},
      {"sim/base/assert.cpp", "void f() { std::abort(); }\n"},
      {"sim/cli/main.cpp", "void f() { std::exit(2); }\n"}},
     {"sim/engine/a.cpp:2: error: only sim/cli ends the process: no exit()",
      "sim/engine/a.cpp:3: error: only sim/cli ends the process: no abort()"}},
    {"a header has #pragma once, and a comment does not count",
     {{"sim/base/a.hpp", "// #pragma once\nint x;\n"}, {"tests/b.hpp", "int y;\n"}},
     {"sim/base/a.hpp:1: error: a header needs #pragma once",
      "tests/b.hpp:1: error: a header needs #pragma once"}},
    {"what stands in a comment or a string is no include",
     {{"sim/base/a.cpp",
       "// #include \"sim/cli/a.hpp\"\n/*\n#include \"sim/cli/b.hpp\"\n*/\n"
       "auto s = R\"(\n#include \"sim/cli/c.hpp\"\n)\";\n"}},
     {}},
};

/// A folder of its own under the system's temporary folder, gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    for (int i = 0; i < 10000; ++i) {
      path_ = fs::temp_directory_path() / ("ceiling-tidy-" + std::to_string(i));
      if (fs::create_directory(path_)) return;
    }
    throw std::runtime_error("no temporary folder could be made");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool passes(const Case& test) {
  const TemporaryFolder folder;
  for (const auto& [name, text] : test.files) {
    fs::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path() / name, std::ios::binary) << text;
  }
  const std::vector<Violation> found = check_tree(folder.path());
  const bool same = std::equal(
      found.begin(), found.end(), test.expected.begin(), test.expected.end(),
      [](const Violation& a, const std::string& b) { return to_string(a).starts_with(b); });
  std::cout << (same ? "ok      " : "FAILED  ") << test.name << '\n';
  if (!same) {
    for (const std::string& line : test.expected) std::cout << "  expected  " << line << '\n';
    for (const Violation& violation : found) {
      std::cout << "  found     " << to_string(violation) << '\n';
    }
  }
  return same;
}

int self_test() {
  const auto failures =
      std::count_if(kCases.begin(), kCases.end(), [](const Case& test) { return !passes(test); });
  return failures == 0 ? 0 : 1;
}

int check(const fs::path& root) {
  if (!fs::is_directory(root / "sim")) {
    std::cerr << "ceiling_tidy: " << root.string() << " is not the root of the project\n";
    return 2;
  }
  const std::vector<Violation> violations = check_tree(root);
  for (const Violation& violation : violations) std::cout << to_string(violation) << '\n';
  return violations.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      std::cerr << "usage: ceiling_tidy ROOT | --self-test\n";
      return 2;
    }
    const std::string_view argument = argv[1];
    return argument == "--self-test" ? self_test() : check(argument);
  } catch (const std::exception& error) {
    std::cerr << "ceiling_tidy: " << error.what() << '\n';
    return 2;
  }
}
