#include "sim/cli/command_line.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "sim/base/diagnostics.hpp"

using Option = CommandLine::Option;

Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::one_of(std::vector<std::string> values) {
  option_->check(CLI::IsMember(std::move(values)));
  return *this;
}
Option& Option::range(int min, int max) {
  option_->check(CLI::Range(min, max));
  return *this;
}
Option& Option::range(double min, double max) {
  option_->check(CLI::Range(min, max));
  return *this;
}
Option& Option::separated_by(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}
Option& Option::one_at_a_time() {
  option_->allow_extra_args(false);
  return *this;
}
Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}
Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

CommandLine::CommandLine(const std::string& name, const std::string& help,
                         const std::string& example)
    : owned_(std::make_unique<CLI::App>(help, name)), app_(*owned_) {
  app_.footer("\nexample: " + example + "\n");
}
CommandLine::CommandLine(CLI::App& app) : app_(app) {}
CommandLine::~CommandLine() = default;

Option CommandLine::add(const std::string& names, std::string& to, const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, std::vector<std::string>& to,
                        const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, int& to, const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, std::int64_t& to, const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, double& to, const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, std::optional<int>& to, const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, std::optional<double>& to,
                        const std::string& help) {
  return Option(app_.add_option(names, to, help));
}
Option CommandLine::add(const std::string& names, bool& to, const std::string& help) {
  return Option(app_.add_flag(names, to, help));
}

CommandLine& CommandLine::word(const std::string& name, const std::string& help,
                               const std::string& example) {
  app_.require_subcommand(1);
  CLI::App* sub = app_.add_subcommand(name, help);
  if (help.empty()) sub->group("");
  sub->footer("\nexample: " + example + "\n");
  words_.push_back(std::unique_ptr<CommandLine>(new CommandLine(*sub)));
  return *words_.back();
}

bool CommandLine::given() const { return app_.parsed(); }

CommandLine::Parsed CommandLine::parse(int argc, char** argv) {
  using End = Parsed::End;
  try {
    app_.parse(argc - 1, argv + 1);
    return {};
  } catch (const CLI::CallForHelp&) {
    return {End::help, app_.help(), ""};
  } catch (const CLI::ParseError& e) {
    // The library says neither which word nor which option was meant.
    std::vector<std::string> options, words;
    const auto add_options = [&](const CLI::App& a) {
      for (const auto* option : a.get_options())
        for (const auto& long_name : option->get_lnames()) options.push_back("--" + long_name);
    };
    add_options(app_);
    for (const auto& word : words_)
      if (!word->app_.get_group().empty())
        words.push_back(word->app_.get_name()), add_options(word->app_);
    const std::string first = argc > 2 ? argv[2] : "";
    if (!words.empty() && !first.starts_with('-') &&
        std::find(words.begin(), words.end(), first) == words.end())
      return first.empty()
                 ? Parsed{End::bad, fmt::format("'{}' needs another word", app_.get_name()),
                          fmt::format("known: {}", fmt::join(words, ", "))}
                 : Parsed{End::bad, fmt::format("{} knows no '{}'", app_.get_name(), first),
                          suggestion(first, words)};
    std::string hint;
    for (int i = 2; i < argc; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (word.starts_with("--") &&
          std::find(options.begin(), options.end(), word) == options.end())
        hint = suggestion(word, options);
    }
    std::string help = app_.get_name();
    for (const auto& word : words_)
      if (word->given()) help += " " + word->app_.get_name();
    return {End::bad, e.what(), hint.empty() ? help + " --help" : hint};
  }
}
