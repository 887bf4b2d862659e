#include "sim/step/price_list.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "sim/base/assert.hpp"

namespace {

// An operator whose time depends on the KV lengths of single sequences.
bool varies(const Operator& op) {
  return std::holds_alternative<MlaOp>(op.work) || std::holds_alternative<GqaOp>(op.work) ||
         std::holds_alternative<IndexerOp>(op.work);
}

// Whether it does its work for the sequences that need logits.
bool by_rows(const Operator& op) {
  const auto rows = [](const auto& work) {
    if constexpr (requires { work.rows; }) return work.rows == Rows::sequences;
    return false;
  };
  return std::visit(rows, op.work);
}

// Knots: 8 per octave, every number below 8, which are octave 0.
int octave_of(std::int64_t x) {
  return x < 8 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x))) - 3;
}

// The piece [knot, next) that holds `x`.
std::pair<std::int64_t, std::int64_t> piece_around(std::int64_t x) {
  const int shift = std::max(octave_of(x) - 1, 0);
  const std::int64_t from = x >> shift << shift;
  return {from, from + (std::int64_t{1} << shift)};
}

constexpr std::size_t rows_a_page = 64;

// The longest sequence counts rounded up to a knot.
std::int64_t rounded_up(std::int64_t kv_max) {
  const auto [from, to] = piece_around(kv_max);
  return kv_max == from ? from : to;
}

std::uint64_t mix(std::uint64_t h, std::int64_t x) {
  h = (h ^ static_cast<std::uint64_t>(x)) * 0x9e3779b97f4a7c15ULL;
  return h ^ (h >> 29);
}

// Whether the price is a Line: a captured pass without prompts whose rows are its tokens.
bool on_a_line(const PassShape& pass, bool captured) {
  return captured && pass.extend_sequences == 0 && pass.heads_rows == pass.decode_sequences &&
         pass.decode_kv_each.empty();
}

}  // namespace

PriceList::PriceList(const StepModel& step)
    : step_(step), launch_{step.graph_launch(false), step.graph_launch(true)} {
  const auto& blocks = step.graph().blocks;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Block block;
    block.repeat = blocks[b].repeat;
    const auto& ops = blocks[b].operators;
    for (std::size_t i = 0; i < ops.size();) {
      if (varies(ops[i])) {
        Varying v;
        v.op = &ops[i];
        if (const auto* mla = std::get_if<MlaOp>(&ops[i].work)) v.capped = mla->top_k > 0;
        v.on_max = std::holds_alternative<IndexerOp>(ops[i].work);
        v.adds_prompts = std::holds_alternative<GqaOp>(ops[i].work) && step.adds_prompts();
        on_max_ |= v.on_max;
        block.parts.push_back({Part::Kind::varying, varying_.size()});
        varying_.push_back(std::move(v));
        ++i;
        continue;
      }
      const bool rows = by_rows(ops[i]);
      const std::size_t first = i;
      while (i < ops.size() && !varies(ops[i]) && by_rows(ops[i]) == rows) ++i;
      block.parts.push_back(
          {rows ? Part::Kind::by_rows : Part::Kind::by_tokens, segments_[rows].size()});
      segments_[rows].push_back({b, first, i});
    }
    blocks_.push_back(std::move(block));
  }
  times_.resize(varying_.size());
  repeats_.resize(varying_.size());
  for (const Block& block : blocks_)
    for (const Part& part : block.parts)
      if (part.kind == Part::Kind::varying) repeats_[part.index] = block.repeat;
}

// What is not known yet is worked out apart: what every pass runs through stays short.
inline const Timeline* PriceList::fixed(bool by_rows, const PassShape& pass, bool captured) {
  const auto rows = static_cast<std::size_t>(by_rows ? pass.heads_rows : pass.tokens());
  const Fixed& pages = fixed_[captured][by_rows];
  if (rows / rows_a_page < pages.size())
    if (const auto& page = pages[rows / rows_a_page]; !page.empty())
      if (const auto& known = page[rows % rows_a_page]; !known.empty()) return known.data();
  return new_fixed(by_rows, pass, captured);
}

[[gnu::noinline]] const Timeline* PriceList::new_fixed(bool by_rows, const PassShape& pass,
                                                       bool captured) {
  const auto rows = static_cast<std::size_t>(by_rows ? pass.heads_rows : pass.tokens());
  Fixed& pages = fixed_[captured][by_rows];
  if (pages.size() <= rows / rows_a_page) pages.resize(rows / rows_a_page + 1);
  auto& page = pages[rows / rows_a_page];
  if (page.empty()) page.resize(rows_a_page);
  auto& known = page[rows % rows_a_page];
  if (known.empty())
    for (const Segment& s : segments_[by_rows])
      known.push_back(
          step_.stretch(step_.graph().blocks[s.block], s.first, s.last, pass, captured));
  return known.data();
}

Duration PriceList::captured_fixed(bool by_rows, const PassShape& pass) {
  const auto at = static_cast<std::size_t>(by_rows ? pass.heads_rows : pass.tokens());
  auto& all = captured_fixed_[by_rows];
  if (all.size() <= at) all.resize(at + 1);
  auto& known = all[at];
  if (!known) {
    known = Duration();
    const Timeline* each = fixed(by_rows, pass, true);
    for (const Segment& s : segments_[by_rows]) *known += blocks_[s.block].repeat * each++->device;
  }
  return *known;
}

const PriceList::Piece& PriceList::decode_piece(Varying& v, std::int64_t batch,
                                                std::int64_t argument, std::int64_t kv_max) {
  const auto at = static_cast<std::size_t>(batch);
  if (v.latest.size() <= at) v.latest.resize(at + 1);
  Piece& piece = v.latest[at];
  if (argument < piece.from || argument >= piece.to ||
      (v.on_max && rounded_up(kv_max) != piece.kv_max))
    piece = new_piece(v, batch, argument, kv_max);
  return piece;
}

[[gnu::noinline]] PriceList::Piece PriceList::new_piece(Varying& v, std::int64_t batch,
                                                        std::int64_t argument,
                                                        std::int64_t kv_max) {
  kv_max = rounded_up(kv_max);
  auto [from, to] = piece_around(argument);
  from = std::max(from, batch);  // every sequence has a token
  const std::uint64_t key = mix(mix(mix(1, from), batch), v.on_max ? kv_max : 0);
  const auto [it, fresh] = v.pieces.try_emplace(key);
  if (fresh) {
    const auto price = [&](std::int64_t kv) {
      PassShape p;
      p.decode_sequences = batch;
      p.decode_kv_tokens = p.decode_kv_tokens_capped = kv;
      p.kv_max = std::clamp(kv_max, (kv + batch - 1) / batch, kv);
      const LayerBlock none;
      return step_.time(*v.op, none, p).ps();
    };
    const std::int64_t at = price(from);
    it->second = {at, (price(to) - at) / (to - from)};
  }
  return {from, to, it->second.first, it->second.second, kv_max};
}

Duration PriceList::varying(Varying& v, const PassShape& pass) {
  // Single lengths, or one launch for decodes and prompts, are no sum of parts.
  const bool lengths = !pass.decode_kv_each.empty() || !pass.prompts.empty();
  const bool together = pass.decode_sequences > 0 && pass.extend_sequences > 0;
  if (std::holds_alternative<GqaOp>(v.op->work) && step_.wants_lengths() && (lengths || together)) {
    const LayerBlock none;
    return step_.time(*v.op, none, pass);
  }
  Duration out;
  if (pass.decode_sequences > 0) {
    const std::int64_t argument = v.capped ? pass.decode_kv_tokens_capped : pass.decode_kv_tokens;
    const Piece& p = decode_piece(v, pass.decode_sequences, argument, pass.kv_max);
    out += Duration::picoseconds(p.at(argument));
  }
  if (pass.extend_sequences > 0) out += extend_part(v, pass);
  return out;
}

Duration PriceList::extend_part(Varying& v, const PassShape& pass) {
  const bool dense = !v.capped && !v.on_max;  // tokens and pairs say it all
  if (dense && pass.extend_sequences == 1) return one_prompt(v, alike_prompts(pass)[1].each);
  if (dense && v.adds_prompts) {
    Duration out;
    for (const AlikePrompts& p : alike_prompts(pass))
      if (p.count > 0) out += p.count * one_prompt(v, p.each);
    return out;
  }
  std::uint64_t key = mix(2, pass.extend_sequences);
  for (const std::int64_t x : {pass.extend_tokens, pass.extend_tokens_max, pass.extend_pairs,
                               pass.extend_pairs_capped, v.on_max ? pass.kv_max : 0})
    key = mix(key, x);
  return v.sums.get(key, [&] {
    PassShape prompts = pass;
    prompts.decode_sequences = prompts.decode_kv_tokens = prompts.decode_kv_tokens_capped = 0;
    const LayerBlock none;
    return step_.time(*v.op, none, prompts);
  });
}

Duration PriceList::one_prompt(Varying& v, const PromptPart& prompt) {
  const auto& [tokens, past] = prompt;
  if (past == 0) {
    const auto at = static_cast<std::size_t>(tokens);
    if (at >= v.whole_prompts.size()) v.whole_prompts.resize(at + 1);
    auto& known = v.whole_prompts[at];
    if (!known) known = new_slope(v, tokens, 0, 1).price;
    return Duration::picoseconds(*known);
  }
  const int octave = octave_of(past), shift = std::max(octave - 1, 0);
  Octave& all = v.prompts.get(mix(mix(3, tokens), octave), [] { return Octave(); });
  Octave::Slope& s = all.from[static_cast<std::size_t>(past >> shift & 7)];
  const std::int64_t from = past >> shift << shift, span = std::int64_t{1} << shift;
  if (s.price < 0) s = new_slope(v, tokens, from, span);
  return Duration::picoseconds(s.price + s.slope * (past - from));
}

[[gnu::noinline]] PriceList::Octave::Slope PriceList::new_slope(Varying& v, std::int64_t tokens,
                                                                std::int64_t past,
                                                                std::int64_t span) {
  const LayerBlock none;
  const auto price = [&](std::int64_t behind) {
    return step_.time(*v.op, none, PassShape::extend(tokens, behind, 0)).ps();
  };
  const std::int64_t at = price(past);
  return {at, (price(past + span) - at) / span};
}

Timeline PriceList::compose(const PassShape& pass, bool captured,
                            const std::vector<Duration>& times) {
  Timeline whole = launch_[captured];
  if (captured) {
    // Nothing is issued within a graph: the stream alone decides.
    Duration device = captured_fixed(false, pass) + captured_fixed(true, pass);
    for (std::size_t i = 0; i < times.size(); ++i) device += repeats_[i] * times[i];
    device += step_.residual(pass);
    return whole.then({Duration(), device, device});
  }
  const Timeline* by_tokens = fixed(false, pass, captured);
  const Timeline* by_rows = fixed(true, pass, captured);
  for (const Block& block : blocks_) {
    const bool once = block.repeat == 1;
    Timeline layer;
    Timeline& goes_on = once ? whole : layer;
    for (const Part& part : block.parts) {
      if (part.kind == Part::Kind::by_tokens)
        goes_on.add(by_tokens[part.index]);
      else if (part.kind == Part::Kind::by_rows)
        goes_on.add(by_rows[part.index]);
      else
        goes_on.add(step_.issued(*varying_[part.index].op, times[part.index], captured));
    }
    if (!once) whole.add(layer.repeated(block.repeat));
  }
  const Duration beside = step_.residual(pass);
  whole.add({Duration(), beside, beside});
  return whole;
}

inline const PriceList::Line& PriceList::line(const PassShape& pass, std::int64_t padding) {
  const auto at = static_cast<std::size_t>(pass.decode_sequences + padding);
  if (at >= lines_.size()) return new_line(pass, padding);
  const Line& line = lines_[at];
  const std::int64_t kv = pass.decode_kv_tokens + padding;
  const std::int64_t capped = pass.decode_kv_tokens_capped + padding;
  if (kv < line.kv_from || kv >= line.kv_to || capped < line.capped_from ||
      capped >= line.capped_to || (on_max_ && rounded_up(pass.kv_max) != line.kv_max))
    return new_line(pass, padding);
  return line;
}

[[gnu::noinline]] const PriceList::Line& PriceList::new_line(const PassShape& real,
                                                             std::int64_t padding) {
  const PassShape pass = real.padded_to(real.decode_sequences + padding);
  const auto at = static_cast<std::size_t>(pass.decode_sequences);
  if (lines_.size() <= at) lines_.resize(at + 1);
  Line& out = lines_[at];
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  out = {};
  out.kv_to = out.capped_to = any;
  out.kv_max = rounded_up(pass.kv_max);
  out.at_zero = captured_fixed(false, pass) + captured_fixed(true, pass) + step_.residual(pass);
  for (std::size_t i = 0; i < varying_.size(); ++i) {
    Varying& v = varying_[i];
    const Piece& p =
        decode_piece(v, pass.decode_sequences,
                     v.capped ? pass.decode_kv_tokens_capped : pass.decode_kv_tokens, pass.kv_max);
    std::int64_t& from = v.capped ? out.capped_from : out.kv_from;
    std::int64_t& to = v.capped ? out.capped_to : out.kv_to;
    from = std::max(from, p.from);
    to = std::min(to, p.to);
    out.at_zero += repeats_[i] * Duration::picoseconds(p.at(0));
    (v.capped ? out.per_capped : out.per_kv) += repeats_[i] * Duration::picoseconds(p.slope);
    out.rising &= p.slope >= 0;
  }
  return out;
}

Timeline PriceList::cost(const PassShape& pass, std::int64_t padded, bool captured) {
  const std::int64_t padding = padded - pass.decode_sequences;
  SIM_ASSERT(padding >= 0);
  if (on_a_line(pass, captured)) {
    const Duration device =
        line(pass, padding)
            .at(pass.decode_kv_tokens + padding, pass.decode_kv_tokens_capped + padding);
    return launch_[captured].then({Duration(), device, device});
  }
  return cost_in_parts(pass, padding, captured);
}

[[gnu::noinline]] Timeline PriceList::cost_in_parts(const PassShape& pass, std::int64_t padding,
                                                    bool captured) {
  if (padding > 0)
    return cost_in_parts(pass.padded_to(pass.decode_sequences + padding), 0, captured);
  for (std::size_t i = 0; i < varying_.size(); ++i) times_[i] = varying(varying_[i], pass);
  return compose(pass, captured, times_);
}

DecodeRamp PriceList::ramp(const PassShape& pass, std::int64_t padded, bool captured,
                           std::int64_t real, std::int64_t below_cap) {
  SIM_ASSERT(pass.extend_sequences == 0 && pass.decode_sequences > 0);
  const std::int64_t padding = padded - pass.decode_sequences;
  DecodeRamp out;
  out.good_for = std::int64_t{1} << 20;
  const auto lasts = [&out](std::int64_t to, std::int64_t argument, std::int64_t gain) {
    if (gain > 0) out.good_for = std::min(out.good_for, (to - 1 - argument) / gain + 1);
  };
  ramp_on_line_ = on_a_line(pass, captured);
  if (ramp_on_line_) {
    const Line& l = line(pass, padding);
    const std::int64_t kv = pass.decode_kv_tokens + padding;
    const std::int64_t capped = pass.decode_kv_tokens_capped + padding;
    const Duration device = l.at(kv, capped);
    lasts(l.kv_to, kv, real);
    lasts(l.capped_to, capped, below_cap);
    if (on_max_) lasts(l.kv_max + 1, pass.kv_max, 1);
    out.rising = l.rising;
    out.device_step = ramp_step_ = real * l.per_kv + below_cap * l.per_capped;
    out.first = ramp_first_ = launch_[captured].then({Duration(), device, device});
    return out;
  }
  ramp_shape_ = pass.padded_to(padded);
  ramp_captured_ = captured;
  const PassShape& shape = ramp_shape_;
  ramp_times_.assign(varying_.size(), Duration());
  ramp_slopes_.assign(varying_.size(), Duration());
  for (std::size_t i = 0; i < varying_.size(); ++i) {
    Varying& v = varying_[i];
    const std::int64_t argument = v.capped ? shape.decode_kv_tokens_capped : shape.decode_kv_tokens;
    const std::int64_t gain = v.capped ? below_cap : real;
    const Piece& p = decode_piece(v, shape.decode_sequences, argument, shape.kv_max);
    ramp_times_[i] = Duration::picoseconds(p.at(argument));
    ramp_slopes_[i] = Duration::picoseconds(p.slope * gain);
    out.rising &= p.slope >= 0;
    out.device_step += repeats_[i] * ramp_slopes_[i];
    lasts(p.to, argument, gain);
    if (v.on_max) lasts(p.kv_max + 1, shape.kv_max, 1);
  }
  out.first = compose(shape, captured, ramp_times_);
  return out;
}

Timeline PriceList::ramp_in_parts(std::int64_t k) {
  ramp_scratch_ = ramp_times_;
  for (std::size_t i = 0; i < ramp_scratch_.size(); ++i) ramp_scratch_[i] += k * ramp_slopes_[i];
  return compose(ramp_shape_, ramp_captured_, ramp_scratch_);
}
