#include <algorithm>
#include <cstdio>
#include <iostream>
#ifdef __GLIBC__
#include <malloc.h>
#endif

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

  CommandLine line("ceiling " + verb, command->help, command->example);
  const auto action = command->setup(line);
  using End = CommandLine::Parsed::End;
  const auto parsed = line.parse(argc, argv);
  if (parsed.end == End::help) return print_result(parsed.text), Exit::fine;
  if (parsed.end == End::bad) return bad_usage(parsed.text, parsed.hint);
  return action();
}

// A run takes and gives back megabytes many times over. What was touched once stays here: the
// system's first touch of a page costs more than all else that a small allocation does.
void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  return static_cast<int>(ceiling(argc, argv));
}
