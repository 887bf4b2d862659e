// A recorded trace, replayed at its own times: Azure, BurstGPT, Mooncake, Qwen-Bailian, or a CSV or
// JSON lines of one's own. The clock starts at the trace's first request, or at `start` after it.
// Where a trace tells hash_ids, equal ids are equal blocks of the prompt; a CSV may name the
// earlier request whose beginning a prompt repeats, and how much of it. Requests without a prompt
// or an answer (BurstGPT marks failures so) are left out and counted.
// Leaves out: what the answers say, so that a later turn repeats its prompt but finds no answer
// cached beyond the blocks that the trace itself repeats; sessions that wait for their answers.

#include <limits>

#include "sim/workload/arrivals.hpp"
#include "sim/workload/trace_file.hpp"

namespace {

struct Recorded {
  std::vector<TraceRow> rows;
  double origin_s = 0, scale = 1;
  std::int64_t block_tokens = 0;
  bool told = false;  // some row says what it shares

  /// Streams: the blocks of the trace are one, block b from b times its size, so that blocks which
  /// follow each other are one run; what is the request's own has the number of its line.
  Content prompt(std::size_t i) const {
    const TraceRow& row = rows[i];
    Content out;
    std::int64_t left = row.input;
    const auto take = [&](std::int64_t stream, std::int64_t offset, std::int64_t tokens) {
      out.append({stream, offset, std::min(left, tokens)});
      left -= std::min(left, tokens);
    };
    for (const std::int64_t b : row.blocks) take(0, b * block_tokens, block_tokens);
    for (const Segment& s : row.shared.segments()) take(s.stream, s.offset, s.tokens);
    if (told) take(row.line, row.input - left, left);
    return out;
  }
};

class Replay final : public RequestSource {
 public:
  explicit Replay(std::shared_ptr<const Recorded> recorded) : recorded_(std::move(recorded)) {}
  bool next(PlannedRequest& r) override {
    if (index_ == recorded_->rows.size()) return false;
    const TraceRow& row = recorded_->rows[index_];
    r = {};
    r.input = row.input;
    r.output = row.output;
    r.prompt = recorded_->prompt(index_++);
    r.send_at = whole_nanoseconds((row.at_s - recorded_->origin_s) * recorded_->scale);
    return true;
  }

 private:
  std::shared_ptr<const Recorded> recorded_;
  std::size_t index_ = 0;
};

std::vector<std::string> format_names() {
  std::vector<std::string> out;
  for (const auto& f : trace_formats()) out.push_back(f.name);
  return out;
}

WorkloadPlan plan(Section& s) {
  const auto name = s.word("format", format_names());
  const auto file = s.required<std::string>("file");
  const auto known = find_trace_format(name);
  auto recorded = std::make_shared<Recorded>();
  recorded->scale = s.optional<double>("time_scale", 1.0, between(1e-6, 1e6));
  const auto span = between(Duration(), Duration::from_seconds(longest_arrivals_s));
  const auto start = s.optional<Duration>("start", Duration(), span);
  const auto duration = s.maybe<Duration>("duration", span);
  const auto requests = s.maybe<int>("requests", positive<int>());
  const auto input_max = s.maybe<std::int64_t>("input_max", positive<std::int64_t>());
  const auto output_max = s.maybe<std::int64_t>("output_max", positive<std::int64_t>());
  const auto over = s.word("over_max", {"drop", "clip"}, "drop");
  TraceFormat format = known ? *known : TraceFormat{};
  if (format.json)
    format.block_tokens = s.optional<int>("block_tokens", format.block_tokens, between(1, 1 << 20));
  WorkloadPlan out;
  out.max_concurrency = s.maybe<int>("max_concurrency", positive<int>());
  out.expert_skew = s.optional<double>("expert_skew", 0.85, between(0.0, 5.0));
  if (!known || file.empty()) return out;
  auto rows = read_trace(beside(s.where("file"), file), format);
  if (!rows) {
    s.reading().errors.append(rows.error());
    return out;
  }
  if (!s.reading().errors.empty()) return out;

  recorded->block_tokens = format.block_tokens;
  recorded->origin_s = rows->front().at_s + start.seconds();
  const double end_s =
      duration ? recorded->origin_s + duration->seconds() : std::numeric_limits<double>::infinity();
  std::int64_t empty = 0, long_ones = 0, clipped = 0;
  for (auto& row : *rows) {
    if (row.at_s < recorded->origin_s) continue;
    if (row.at_s >= end_s || (requests && recorded->rows.size() == std::size_t(*requests))) break;
    if (row.input == 0 || row.output == 0) {
      ++empty;
      continue;
    }
    const auto most_in = input_max.value_or(row.input), most_out = output_max.value_or(row.output);
    if (row.input > most_in || row.output > most_out) {
      if (over == "drop") {
        ++long_ones;
        continue;
      }
      ++clipped;
      row.input = std::min(row.input, most_in);
      row.output = std::min(row.output, most_out);
    }
    recorded->told = recorded->told || !row.blocks.empty() || !row.shared.empty();
    recorded->rows.push_back(std::move(row));
  }
  if (recorded->rows.empty()) {
    s.error("file", "no request of the trace is left",
            "look at start, duration, input_max and output_max");
    return out;
  }
  out.set([recorded] { return std::make_unique<Replay>(recorded); });
  if (!arrivals_fit(out, s, "time_scale")) return out;
  out.description = fmt::format("{} requests of a trace ({}) in {:.0f} s: {} tokens in, {} out",
                                grouped(out.requests), name, out.last_send.seconds(),
                                grouped(out.input_tokens), grouped(out.output_tokens));
  const auto note = [&](std::int64_t n, const char* why) {
    if (n > 0) out.description += fmt::format("; {} {}", grouped(n), why);
  };
  note(empty, "left out without prompt or answer");
  note(long_ones, "left out as too long");
  note(clipped, "cut to the longest allowed");
  return out;
}

const Registered<WorkloadKind> me("trace", {"a recorded trace, at its own times", plan});

}  // namespace
