#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Running the real program, and the places of the project's files.
namespace process {

namespace fs = std::filesystem;

/// The project's root: $CEILING_SOURCE, else the working directory.
inline fs::path source_root() {
  const char* given = std::getenv("CEILING_SOURCE");
  return given && *given ? fs::path(given) : fs::current_path();
}

/// The program: $CEILING_BINARY, else the one in the build folder of this test.
inline fs::path binary() {
  if (const char* given = std::getenv("CEILING_BINARY"); given && *given) return given;
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "ceiling";
}

/// A library of tests/fakes.
inline std::string fake(const std::string& name) {
  return (fs::read_symlink("/proc/self/exe").parent_path() / "fakes" / ("libfake_" + name + ".so"))
      .string();
}

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder that is removed at the end, outside the sources.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "ceiling-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

/// A variable of the environment, for this process and those it starts, as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* was = std::getenv(name)) was_ = was, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { had_ ? setenv(name_, was_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
  std::string was_;
  bool had_ = false;
};

struct Outcome {
  int code = -1;  // of exit; 128 + the signal when one ended it
  std::string out, err;
};

inline std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Runs the program in `where`.
inline Outcome run_in(const fs::path& where, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const fs::path err = folder.path() / "stderr";
  std::string command = "cd " + quoted(where.string()) + " && " + quoted(binary().string());
  for (const auto& a : arguments) command += " " + quoted(a);
  command += " 2>" + quoted(err.string()) + " </dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  Outcome o;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    o.out.append(buffer, n);
  const int status = pclose(pipe);
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  o.err = read_text(err);
  return o;
}

/// Runs it from the project's root, so that "scenarios/..." is found.
inline Outcome run(const std::vector<std::string>& arguments) {
  return run_in(source_root(), arguments);
}

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace process
