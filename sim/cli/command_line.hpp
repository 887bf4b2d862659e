#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// The words of one command: what it takes, and where the values go once they are parsed. The one
/// place that knows the parsing library, whose templates cost every file that sees them seconds.
class CommandLine {
 public:
  /// What may be said of a declared option; each returns the option again.
  class Option {
   public:
    Option& required();
    Option& one_of(std::vector<std::string> values);
    Option& range(int min, int max);
    Option& range(double min, double max);
    Option& separated_by(char delimiter);
    /// One value each time it is named, for an option before a positional argument.
    Option& one_at_a_time();
    Option& needs(const Option& other);
    Option& excludes(const Option& other);

   private:
    friend class CommandLine;
    explicit Option(CLI::Option* option) : option_(option) {}
    CLI::Option* option_;
  };

  /// How parsing ended: `text` is the help, or what is wrong with `hint` at what to do.
  struct Parsed {
    enum class End { fine, help, bad } end = End::fine;
    std::string text, hint;
  };

  /// `name` as the user types it: "ceiling run".
  CommandLine(const std::string& name, const std::string& help, const std::string& example);
  ~CommandLine();

  /// Declares an option ("--gpu", "-o,--output"), a positional argument ("FILE") or, for a bool, a
  /// flag. `to` outlives parsing and keeps its value where the user says nothing.
  Option add(const std::string& names, std::string& to, const std::string& help);
  Option add(const std::string& names, std::vector<std::string>& to, const std::string& help);
  Option add(const std::string& names, int& to, const std::string& help);
  Option add(const std::string& names, std::int64_t& to, const std::string& help);
  Option add(const std::string& names, double& to, const std::string& help);
  Option add(const std::string& names, std::optional<int>& to, const std::string& help);
  Option add(const std::string& names, std::optional<double>& to, const std::string& help);
  Option add(const std::string& names, bool& to, const std::string& help);

  /// A word below this one ("kernels" of `ceiling fit`), one of which the user has to give. Its
  /// line lives as long as this. One without help is there for ceiling itself and is not shown.
  CommandLine& word(const std::string& name, const std::string& help, const std::string& example);
  /// True once the user gave this word.
  bool given() const;

  /// Parses the arguments after the program's name.
  Parsed parse(int argc, char** argv);

 private:
  explicit CommandLine(CLI::App& app);

  std::unique_ptr<CLI::App> owned_;  // of the first line; words are owned by the library
  CLI::App& app_;
  std::vector<std::unique_ptr<CommandLine>> words_;
};
