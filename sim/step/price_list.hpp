#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/step/step_model.hpp"

/// How the price of a decode pass goes on when the same requests decode again and again.
struct DecodeRamp {
  Timeline first;             // of the next pass
  Duration device_step;       // what each further one adds to `device`
  std::int64_t good_for = 1;  // passes for which that is exact; 1: no ramp
  bool rising = true;         // no part of it gets shorter
};

/// A step model compiled for the hot path: tens of nanoseconds a pass. What depends on tokens alone
/// is worked out once per size; decode attention is linear between knots (8 per octave of the KV
/// sum) with slopes of whole picoseconds, so that passes in a row add up exactly, and so is dense
/// attention of a prompt between knots of what it lies behind. Equal to the step model at
/// the knots. Not thread-safe; one per run.
class PriceList {
 public:
  explicit PriceList(const StepModel& step);

  /// Price of a pass whose decode sequences are padded to `padded`. Same shape, same answer.
  Timeline cost(const PassShape& pass, std::int64_t padded, bool captured);
  /// Price of a pass (padded already when captured).
  Timeline cost(const PassShape& pass, bool captured) {
    return cost(pass, pass.decode_sequences, captured);
  }
  /// The price of a decode pass, padded to `padded` sequences, and of those behind it, in which
  /// each of the `real` sequences gains a token (`below_cap` of them below the sparse top-k);
  /// padding gains none.
  DecodeRamp ramp(const PassShape& pass, std::int64_t padded, bool captured, std::int64_t real,
                  std::int64_t below_cap);
  /// Price of pass `k` (from 0) behind the one that ramp() was last asked for.
  Timeline ramp_at(std::int64_t k) {
    if (!ramp_on_line_) return ramp_in_parts(k);
    const Timeline& t = ramp_first_;  // the stream alone decides
    return {t.host, t.device + k * ramp_step_, t.span + k * ramp_step_};
  }

  const StepModel& step() const { return step_; }

 private:
  /// Operators between two whose time depends on KV lengths, of one kind of row.
  struct Segment {
    std::size_t block = 0, first = 0, last = 0;  // operators [first, last)
  };
  /// All segments of one kind of row, each priced, by the number of rows: in pages that are made
  /// when they are first asked for, as of the thousands of sizes that prompts may have a run meets
  /// few.
  using Fixed = std::vector<std::vector<std::vector<Timeline>>>;
  struct Piece {
    std::int64_t from = 0, to = 0;  // [from, to) of the argument
    std::int64_t price = 0, slope = 0;
    std::int64_t kv_max = 0;  // that it is for

    std::int64_t at(std::int64_t argument) const { return price + slope * (argument - from); }
  };
  /// Prices of one prompt between the knots of an octave of what it lies behind.
  struct Octave {
    struct Slope {
      std::int64_t price = -1, slope = 0;  // at the knot; -1: not asked for yet
    };
    std::array<Slope, 8> from{};
  };
  /// Values by a hash, four places for each. Where every one is another it stops growing: a new one
  /// takes the place of an old one.
  template <class Value>
  class Memo {
   public:
    template <class Work>
    Value& get(std::uint64_t key, Work work) {
      key |= 1;  // 0: nothing
      for (;;) {
        Entry* const set = set_of(key);
        for (Entry* e = set; e < set + ways; ++e) {
          if (e->first == key) return e->second;
          if (e->first == 0) return (*e = {key, work()}).second;
        }
        if (sizeof(Entry) * entries_.size() >= most_bytes)
          return (set[++replaced_ % ways] = {key, work()}).second;
        grow();
      }
    }

   private:
    using Entry = std::pair<std::uint64_t, Value>;
    static constexpr std::size_t ways = 4, most_bytes = 4 << 20;

    Entry* set_of(std::uint64_t key) {
      return entries_.data() + (key >> 32 & (entries_.size() - 1) & ~(ways - 1));
    }
    void grow() {
      std::vector<Entry> old(2 * entries_.size());
      old.swap(entries_);
      for (Entry& e : old)
        if (e.first != 0) *std::find_if(set_of(e.first), set_of(e.first) + ways, empty) = e;
    }
    static bool empty(const Entry& e) { return e.first == 0; }

    std::vector<Entry> entries_ = std::vector<Entry>(64);
    std::size_t replaced_ = 0;
  };
  struct Varying {
    const Operator* op = nullptr;
    bool capped = false;        // depends on the capped KV sum
    bool on_max = false;        // depends on the longest sequence
    std::vector<Piece> latest;  // of `pieces`, by sequences
    std::unordered_map<std::uint64_t, std::pair<std::int64_t, std::int64_t>> pieces;
    bool adds_prompts = false;                               // several prompts cost the sum of each
    std::vector<std::optional<std::int64_t>> whole_prompts;  // from their beginning, by tokens
    Memo<Octave> prompts;  // of one behind a prefix, by a hash of its tokens and the octave
    Memo<Duration> sums;   // of other extend parts, by a hash of their sums
  };
  struct Part {
    enum class Kind { by_tokens, by_rows, varying } kind;
    std::size_t index;  // among those of its kind
  };
  struct Block {
    int repeat = 1;
    std::vector<Part> parts;
  };
  /// Device time of a captured decode pass of one size: at_zero + per_kv x KV tokens + per_capped x
  /// capped KV tokens while these stay in their range and the longest sequence rounds up to kv_max.
  struct Line {
    std::int64_t kv_from = 0, kv_to = 0;  // [from, to)
    std::int64_t capped_from = 0, capped_to = 0;
    std::int64_t kv_max = 0;
    Duration at_zero, per_kv, per_capped;
    bool rising = true;  // with each part

    Duration at(std::int64_t kv, std::int64_t capped) const {
      return at_zero + kv * per_kv + capped * per_capped;
    }
  };

  /// Device time of all of a captured pass that depends on tokens (or on rows) alone.
  Duration captured_fixed(bool by_rows, const PassShape& pass);
  /// The line that a captured pass is on once padding is added.
  const Line& line(const PassShape& pass, std::int64_t padding);
  const Line& new_line(const PassShape& pass, std::int64_t padding);
  /// Every segment of one kind of row, in order.
  const Timeline* fixed(bool by_rows, const PassShape& pass, bool captured);
  const Timeline* new_fixed(bool by_rows, const PassShape& pass, bool captured);
  Timeline ramp_in_parts(std::int64_t k);
  Timeline cost_in_parts(const PassShape& pass, std::int64_t padding, bool captured);
  const Piece& decode_piece(Varying& v, std::int64_t batch, std::int64_t argument,
                            std::int64_t kv_max);
  Piece new_piece(Varying& v, std::int64_t batch, std::int64_t argument, std::int64_t kv_max);
  Duration varying(Varying& v, const PassShape& pass);
  Duration extend_part(Varying& v, const PassShape& pass);
  Duration one_prompt(Varying& v, const PromptPart& prompt);
  Octave::Slope new_slope(Varying& v, std::int64_t tokens, std::int64_t past, std::int64_t span);
  Timeline compose(const PassShape& pass, bool captured, const std::vector<Duration>& times);

  const StepModel& step_;
  const Timeline launch_[2];          // eager, captured
  std::vector<Segment> segments_[2];  // of tokens, of rows: sequences with logits
  Fixed fixed_[2][2];                 // eager, captured; by tokens, by rows
  std::vector<Varying> varying_;
  std::vector<Block> blocks_;
  std::vector<Duration> times_;
  std::vector<int> repeats_;                                // of the varying operators
  std::vector<std::optional<Duration>> captured_fixed_[2];  // by tokens, by rows
  std::vector<Line> lines_;                                 // the latest, by sequences
  bool on_max_ = false;  // a price depends on the longest sequence
  // what ramp() was last asked for: on a line
  bool ramp_on_line_ = false;
  Timeline ramp_first_;
  Duration ramp_step_;
  // or else
  PassShape ramp_shape_;
  bool ramp_captured_ = false;
  std::vector<Duration> ramp_times_, ramp_slopes_;
  std::vector<Duration> ramp_scratch_;
};
