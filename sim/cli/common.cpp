#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "sim/cli/command.hpp"

void add_common(CommandLine& line, CommonOptions& options) {
  line.add("--format", options.format, "table or json").one_of({"table", "json"});
  line.add("--set", options.set, "override one value of the scenario: PATH=VALUE (repeatable)")
      .one_at_a_time();
  line.add("--dry-run", options.dry_run, "print every value that would be used, with its origin");
}

Exit report_errors(const Diagnostics& errors) {
  fmt::print(stderr, "{}{} error{}; nothing was run\n", errors.render(), errors.size(),
             errors.size() == 1 ? "" : "s");
  return Exit::bad_input;
}

bool write_whole(const std::string& path,
                 const std::function<void(const std::function<void(std::string_view)>&)>& write) {
  namespace fs = std::filesystem;
  // beside it, so that the last step is a rename
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) return false;
  bool good = true;
  write([&](std::string_view part) {
    good = good && std::fwrite(part.data(), 1, part.size(), file) == part.size();
  });
  good = std::fclose(file) == 0 && good;
  std::error_code code;
  if (good) fs::rename(temporary, path, code);
  if (good && !code) return true;
  fs::remove(temporary, code);
  return false;
}

bool write_whole(const std::string& path, std::string_view text) {
  return write_whole(path, [&](const auto& put) { put(text); });
}

std::vector<Override> read_overrides(const std::vector<std::string>& set, Diagnostics& errors) {
  std::vector<Override> out;
  for (const auto& text : set) {
    if (const auto change = parse_override(text))
      out.push_back(*change);
    else
      errors.error({}, fmt::format("'{}' is not an override", text),
                   "write PATH=VALUE, as engine.cuda_graph=on");
  }
  return out;
}

void print_result(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Exit predict_and_print(const std::vector<Scenario>& scenarios, const CommonOptions& options,
                       const PredictOptions& parts, bool judge,
                       std::string (*table)(const std::vector<RunReport>&),
                       const std::function<Diagnostics(const std::vector<RunReport>&)>& also) {
  if (options.dry_run) return print_dry_run(scenarios);
  std::vector<RunReport> reports;
  Diagnostics errors;
  bool failed = false, stopped = interrupted();
  for (const auto& scenario : scenarios) {
    if (stopped) break;
    progress(fmt::format("{}/{} {}", reports.size() + 1, scenarios.size(), scenario.name));
    auto report = predict(scenario, parts);
    if (!report) {
      errors.append(report.error());
    } else {
      failed |= report->failed();
      reports.push_back(std::move(*report));
    }
    stopped = interrupted();
  }
  progress("");
  if (!errors.empty()) return report_errors(errors);
  if (reports.empty()) return Exit::interrupted;
  if (also) {
    errors = also(reports);
    if (!errors.empty()) return report_errors(errors);
  }
  print_result(options.format == "json" ? to_json(reports) : table(reports));
  return stopped ? Exit::interrupted : judge && failed ? Exit::expectation_failed : Exit::fine;
}

Exit print_dry_run(const std::vector<Scenario>& scenarios) {
  std::string out;
  Diagnostics errors;
  for (const auto& scenario : scenarios) {
    const auto values = dry_run(scenario);
    if (!values) {
      errors.append(values.error());
      continue;
    }
    out += scenario.name + "\n";
    for (const auto& v : *values) {
      std::string value = v.value;
      for (char& c : value)
        if (c == '\n') c = ' ';
      if (value.size() > 48) value = value.substr(0, 45) + "...";
      out += fmt::format("  {:<44} {:<48} {}\n", v.path, value, v.origin);
    }
  }
  if (!errors.empty()) return report_errors(errors);
  print_result(out);
  return Exit::fine;
}

void progress(const std::string& text) {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) fmt::print(stderr, "\r\033[K{}", text), std::fflush(stderr);
}

namespace {
volatile std::sig_atomic_t stop = 0;
}

bool interrupted() {
  // The first Ctrl-C asks, the second kills.
  static const bool installed = [] {
    std::signal(SIGINT, [](int) {
      stop = 1;
      std::signal(SIGINT, SIG_DFL);
    });
    return true;
  }();
  return installed && stop != 0;
}
