// Engine steps and their batches from a log of requests, measured times beside predicted ones.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate/import/request_log.hpp"
#include "calibrate/import/step_times.hpp"
#include "sim/cli/import.hpp"
#include "sim/report/table.hpp"
#include "sim/scenario/experiment.hpp"

namespace {

// Client chunks of one step arrive within 250 us (Qwen3-14B on H100, steps of 11 ms). An engine
// notes "scheduled" after it handled the step before: up to 0.5 ms after its tokens (vLLM 0.19).
constexpr double chunk_tolerance_us = 250, request_tolerance_us = 500;

struct Options {
  std::string file, output, format = "table", against;
  RequestLogOptions log;
  std::vector<std::string> columns;
  std::optional<double> tolerance_us;
  LatticeOptions lattice;
};

Exit refuse(const Diagnostics& errors) {
  fmt::print(stderr, "{}{} error{}; nothing was imported\n", errors.render(), errors.size(),
             errors.size() == 1 ? "" : "s");
  return Exit::bad_input;
}

/// What the engine of a scenario is predicted to take for a step.
StepPredictor predictor(const Experiment& e) {
  return [&e](const LatticeStep& s) -> std::optional<double> {
    const std::int64_t top_k =
        e.build().sparse_attention && e.model().indexer ? e.model().indexer->top_k : 0;
    const std::int64_t n = s.decode();
    if (n == 0 && s.prefill_tokens == 0) return std::nullopt;
    PassShape pass =
        s.prefill_tokens > 0 ? PassShape::extend(s.prefill_tokens, 0, top_k) : PassShape{};
    pass.decode_sequences = n;
    pass.heads_rows += n;
    for (const auto kv : s.kv) {
      pass.decode_kv_tokens += kv;
      pass.decode_kv_tokens_capped += top_k > 0 ? std::min(kv, top_k) : kv;
      pass.kv_max = std::max(pass.kv_max, kv);
    }
    pass.decode_kv_each = s.kv;
    bool captured = false;
    if (s.prefill_tokens == 0) {
      const int size = e.graphs() ? e.sizes().captured_size(n) : 0;
      captured = size > 0;
      if (captured) pass = pass.padded_to(size);
    } else {
      captured = e.sizes().piecewise_tokens >= pass.tokens();
    }
    const Timeline t = e.cost(pass, captured);
    // A loop that schedules ahead hides the host behind the GPU, or the other way round.
    return (e.sizes().loop_depth > 1 ? std::max(t.device, t.host) : t.span).ms();
  };
}

std::string range(const StepTimes& t) {
  return t.least == t.most ? grouped(t.least)
                           : fmt::format("{}-{}", grouped(t.least), grouped(t.most));
}

std::string table(const char* title, const std::vector<StepTimes>& rows, bool predicted,
                  bool prefill) {
  if (rows.empty()) return {};
  std::vector<std::string> header = {title, "steps", "measured ms"};
  if (prefill) header.insert(header.begin() + 2, "sequences");
  header.push_back("mean KV");
  if (predicted) header.insert(header.end(), {"predicted ms", "error"});
  Table out(header);
  for (const auto& t : rows) {
    std::vector<std::string> cells = {range(t), grouped(static_cast<std::int64_t>(t.steps))};
    if (prefill) cells.push_back(fmt::format("{:.0f}", t.sequences));
    cells.push_back(fmt::format("{:.2f}", t.measured_ms));
    cells.push_back(
        t.sequences > 0 ? grouped(static_cast<std::int64_t>(t.context / t.sequences + 0.5)) : "-");
    if (predicted) {
      cells.push_back(t.predicted_ms ? fmt::format("{:.2f}", *t.predicted_ms) : "-");
      cells.push_back(t.predicted_ms ? percent_error(*t.predicted_ms / t.measured_ms - 1) : "-");
    }
    out.row(cells);
  }
  return "\n" + out.text();
}

std::string render(const Options& o, const RequestLog& log, const StepLattice& l,
                   const StepTables& t) {
  std::string out =
      fmt::format("{}{}\n{} requests, {}\n", o.file, log.run.empty() ? "" : ", run " + log.run,
                  grouped(static_cast<std::int64_t>(l.requests)), log.form);
  const auto line = [&](const char* what, const std::string& text) {
    out += fmt::format("  {:<12}{}\n", what, text);
  };
  line("boundaries",
       fmt::format("{} of {} joined: {} steps", grouped(static_cast<std::int64_t>(l.joined)),
                   grouped(static_cast<std::int64_t>(l.boundaries)), grouped(l.span)));
  if (l.by_order + l.by_time + l.unclear > 0)
    line("", fmt::format(
                 "parts placed: {} by order, {} by even steps{}", l.by_order, l.by_time + l.unclear,
                 l.unclear > 0 ? fmt::format(" ({} would do nearly as well elsewhere)", l.unclear)
                               : ""));
  line("conflicts",
       l.in_conflict.empty()
           ? fmt::format("{}", l.conflicts)
           : fmt::format("{}, of requests {}{}", l.conflicts, fmt::join(l.in_conflict, ", "),
                         l.conflicts > l.in_conflict.size() ? " and others" : ""));
  if (l.disordered > 0)
    line("", fmt::format("{} boundaries out of the order of time", l.disordered));
  if (l.depth > 0) {
    const auto& at = l.conflicts_at;
    const bool decided =
        std::count(at.begin() + 1, at.end(), *std::min_element(at.begin() + 1, at.end())) == 1;
    line("depth", fmt::format("scheduled to first token takes {} step{}; conflicts with 1, 2, 3: "
                              "{}, {}, {}{}",
                              l.depth, l.depth == 1 ? "" : "s", at[1], at[2], at[3],
                              decided || o.lattice.depth > 0 ? "" : " (not decided)"));
  }
  const bool predicted = !o.against.empty();
  out += table("sequences, decode only", t.decode, predicted, false);
  out += table("prompt tokens of a step", t.prefill, predicted, true);
  std::vector<std::string> left;
  const auto leave = [&](std::size_t n, const char* why) {
    if (n > 0) left.push_back(fmt::format("{} {}", grouped(static_cast<std::int64_t>(n)), why));
  };
  leave(t.after_idle, "with nobody decoding");
  leave(t.incomplete, "beside requests whose steps are not known");
  leave(t.mixed_up, "that share one time with steps of the other kind");
  if (!left.empty())
    out += "\n" + wrapped(fmt::format("steps in no table: {}", fmt::join(left, "; ")), 2) + "\n";
  return out;
}

std::string to_json(const Options& o, const RequestLog& log, const StepLattice& l,
                    const StepTables& t) {
  using nlohmann::ordered_json;
  const auto rows = [](const std::vector<StepTimes>& list) {
    ordered_json out = ordered_json::array();
    for (const auto& s : list) {
      ordered_json row = {{"least", s.least},         {"most", s.most},
                          {"steps", s.steps},         {"measured_ms", s.measured_ms},
                          {"sequences", s.sequences}, {"context", s.context}};
      if (s.predicted_ms) row["predicted_ms"] = *s.predicted_ms;
      out.push_back(row);
    }
    return out;
  };
  const ordered_json out = {
      {"file", o.file},
      {"run", log.run},
      {"form", log.form},
      {"requests", l.requests},
      {"unfinished", log.unfinished},
      {"preempted", l.preempted},
      {"boundaries", l.boundaries},
      {"joined", l.joined},
      {"placed_by_order", l.by_order},
      {"placed_by_time", l.by_time},
      {"placed_unclear", l.unclear},
      {"steps", l.span},
      {"conflicts", l.conflicts},
      {"disordered", l.disordered},
      {"depth", l.depth},
      {"conflicts_at_depth", {l.conflicts_at[1], l.conflicts_at[2], l.conflicts_at[3]}},
      {"decode", rows(t.decode)},
      {"prefill", rows(t.prefill)},
      {"after_idle", t.after_idle},
      {"incomplete", t.incomplete},
      {"mixed_up", t.mixed_up}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Exit import_steps(Options o) {
  Diagnostics errors;
  for (const auto& column : o.columns) {
    const auto pair = parse_override(column);
    if (!pair)
      errors.error({}, fmt::format("'{}' names no column", column), "write ROLE=COLUMN");
    else
      o.log.columns[pair->path] = pair->value;
  }
  std::unique_ptr<Experiment> experiment;
  if (!o.against.empty()) {
    const auto scenarios = load_scenarios(o.against, {});
    if (!scenarios) {
      errors.append(scenarios.error());
    } else if (const auto inputs = resolve(scenarios->front()); !inputs) {
      errors.append(inputs.error());
    } else if (auto made = Experiment::make(*inputs); !made) {
      errors.append(made.error());
    } else {
      experiment = std::move(*made);
    }
  }
  const auto log = errors.empty() ? read_request_log(o.file, o.log)
                                  : Expected<RequestLog>(tl::unexpected(Diagnostics()));
  if (!log) {
    errors.append(log.error());
    return refuse(errors);
  }
  const bool chunks = log->form != "request times";
  o.lattice.tolerance_s =
      o.tolerance_us.value_or(chunks ? chunk_tolerance_us : request_tolerance_us) * 1e-6;
  const StepLattice lattice = solve_lattice(log->requests, o.lattice);
  const StepTables tables =
      step_tables(lattice, experiment ? predictor(*experiment) : StepPredictor{});
  if (!o.output.empty() && !write_whole(o.output, steps_csv(lattice))) {
    errors.error({}, fmt::format("'{}' cannot be written", o.output),
                 "name a file in a folder that exists and has room");
    return refuse(errors);
  }
  for (const auto& note : log->notes) fmt::print(stderr, "note: {}\n", note);
  if (log->unfinished > 0)
    fmt::print(stderr, "left out: {} without a first and a last token\n", log->unfinished);
  if (lattice.preempted > 0)
    fmt::print(stderr, "left out: {} preempted, whose tokens do not count their steps\n",
               lattice.preempted);
  if (lattice.conflicts > 0 || lattice.disordered > 0)
    fmt::print(stderr,
               "warning: the log contradicts itself: times of several clocks, preempted requests "
               "that it does not mark, or prompts that make decode wait; try --tolerance, or a "
               "'preemptions' column\n");
  if (2 * lattice.joined < lattice.boundaries)
    fmt::print(stderr,
               "warning: less than half of the boundaries join: too few requests run at a time, or "
               "--budget is too small\n");
  print_result(o.format == "json" ? to_json(o, *log, lattice, tables)
                                  : render(o, *log, lattice, tables));
  return Exit::fine;
}

std::function<Exit()> setup(CommandLine& line) {
  const auto o = std::make_shared<Options>();
  line.add("FILE", o->file,
           "CSV or JSON lines: a row a request (scheduled, first, last token), a row a chunk, "
           "or vllm bench serve --save-detailed")
      .required();
  line.add("--run", o->log.run, "of a file with a column 'run'");
  line.add("--columns", o->columns,
           fmt::format("ROLE=COLUMN,...; roles: {}", fmt::join(request_log_roles(), ", ")))
      .separated_by(',');
  line.add("--tolerance", o->tolerance_us,
           "us within which times are one boundary (500; chunks 250)")
      .range(0.0, 1e5);
  line.add("--depth", o->lattice.depth,
           "steps from scheduled to first token (0: the one without conflicts)")
      .range(0, 3);
  line.add("--budget", o->lattice.token_budget,
           "the engine's max_num_batched_tokens or less (2048)")
      .range(1, 1 << 24);
  line.add("--against", o->against, "a scenario: its predicted times beside the measured");
  line.add("--format", o->format, "table or json").one_of({"table", "json"});
  line.add("-o,--output", o->output, "write the steps to this file, as CSV");
  return [o] { return import_steps(*o); };
}

const Registered<ImportCommand> me(
    "steps", {"engine steps and batches, rebuilt from a log of requests",
              "ceiling import steps requests.csv --against scenario.yaml -o steps.csv", setup});

}  // namespace
