#include <algorithm>
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

#include "sim/base/version.hpp"
#include "sim/cli/command.hpp"

namespace {

std::vector<std::pair<std::string, const Command*>> commands() {
  std::vector<std::pair<std::string, const Command*>> out;
  for (const auto& [name, command] : Registry<Command>::entries()) out.emplace_back(name, &command);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second->order < b.second->order; });
  return out;
}

void print_overview() {
  std::string out =
      "ceiling predicts how fast a GPU box serves a large language model, what stops it, and what "
      "a\n"
      "change would bring.\n\n";
  for (const auto& [name, command] : commands())
    out += fmt::format("  {:<9} {}\n            {}\n", name, command->help, command->example);
  out += "\nceiling COMMAND --help explains one command.\n";
  print_result(out);
}

Exit bad_usage(const std::string& message, const std::string& hint) {
  fmt::print(stderr, "ceiling: error: {}\n", message);
  if (!hint.empty()) fmt::print(stderr, "  {}\n", hint);
  return Exit::bad_input;
}

Exit ceiling(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb.empty() || verb == "--help" || verb == "-h" || verb == "help")
    return print_overview(), Exit::fine;
  if (verb == "--version")
    return print_result(fmt::format("ceiling {} ({})\n", version(), git_commit())), Exit::fine;
  const Command* command = Registry<Command>::find(verb);
  if (!command)
    return bad_usage(fmt::format("there is no command '{}'", verb),
                     suggestion(verb, Registry<Command>::names()));

  CLI::App app(command->help, "ceiling " + verb);
  app.footer("\nexample: " + command->example + "\n");
  const auto action = command->setup(app);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    return print_result(app.help()), Exit::fine;
  } catch (const CLI::ParseError& e) {
    // CLI11 says neither which word nor which option was meant.
    std::vector<std::string> options, words;
    const auto add_options = [&](const CLI::App& a) {
      for (const auto* option : a.get_options())
        for (const auto& long_name : option->get_lnames()) options.push_back("--" + long_name);
    };
    add_options(app);
    for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; }))
      words.push_back(sub->get_name()), add_options(*sub);
    const std::string first = argc > 2 ? argv[2] : "";
    if (!words.empty() && !first.starts_with('-') &&
        std::find(words.begin(), words.end(), first) == words.end())
      return bad_usage(first.empty() ? fmt::format("'ceiling {}' needs another word", verb)
                                     : fmt::format("ceiling {} knows no '{}'", verb, first),
                       first.empty() ? fmt::format("known: {}", fmt::join(words, ", "))
                                     : suggestion(first, words));
    std::string hint;
    for (int i = 2; i < argc; ++i) {
      const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
      if (word.starts_with("--") &&
          std::find(options.begin(), options.end(), word) == options.end())
        hint = suggestion(word, options);
    }
    return bad_usage(e.what(), hint.empty() ? fmt::format("ceiling {} --help", verb) : hint);
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) { return static_cast<int>(ceiling(argc, argv)); }
