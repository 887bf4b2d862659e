// Engine steps from the times of requests. The method and its check on a served run of vLLM 0.19
// are in docs/import.md; the run is that of casys-kaist/LLMServingSim @5daddb2.

#include "calibrate/import/step_lattice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace {

/// Boundaries in parts; within a part the distance of any two in steps is known.
class Parts {
 public:
  explicit Parts(std::size_t n) : part_(n), at_(n, 0), members_(n) {
    std::iota(part_.begin(), part_.end(), std::size_t{0});
    for (std::size_t i = 0; i < n; ++i) members_[i] = {i};
  }
  /// Says that `b` comes `steps` after `a`; false when it is known to be otherwise.
  bool join(std::size_t a, std::size_t b, std::int64_t steps) {
    std::size_t keep = part_[a], move = part_[b];
    if (keep == move) return at_[b] - at_[a] == steps;
    std::int64_t shift = at_[a] + steps - at_[b];
    if (members_[keep].size() < members_[move].size()) std::swap(keep, move), shift = -shift;
    for (const std::size_t x : members_[move]) part_[x] = keep, at_[x] += shift;
    members_[keep].insert(members_[keep].end(), members_[move].begin(), members_[move].end());
    members_[move].clear();
    return true;
  }
  std::size_t largest() const {
    std::size_t best = 0;
    for (std::size_t p = 0; p < members_.size(); ++p)
      if (members_[p].size() > members_[best].size()) best = p;
    return best;
  }
  void shift(const std::vector<std::size_t>& some, std::int64_t steps) {
    for (const std::size_t x : some) at_[x] += steps;
  }
  std::size_t part(std::size_t x) const { return part_[x]; }
  std::int64_t at(std::size_t x) const { return at_[x]; }
  const std::vector<std::size_t>& members(std::size_t part) const { return members_[part]; }
  std::size_t count() const { return members_.size(); }

 private:
  std::vector<std::size_t> part_;
  std::vector<std::int64_t> at_;
  std::vector<std::vector<std::size_t>> members_;
};

/// Times as boundaries: runs of times no further apart than the tolerance.
struct Boundaries {
  std::vector<double> time;  // the first of each
  std::vector<std::size_t> of;

  Boundaries(const std::vector<double>& times, double tolerance) : of(times.size()) {
    std::vector<std::size_t> order(times.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
    double last = -std::numeric_limits<double>::infinity();
    for (const std::size_t i : order) {
      if (!(times[i] - last <= tolerance)) time.push_back(times[i]);
      last = times[i];
      of[i] = time.size() - 1;
    }
  }
};

/// A part against the largest one: where it may lie.
struct Room {
  std::int64_t least = std::numeric_limits<std::int64_t>::min() / 4;
  std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4;
};

struct Neighbours {
  std::vector<std::size_t> main;  // boundaries of the largest part, in the order of time

  /// Position in `main` of the first one after boundary x.
  std::size_t after(std::size_t x) const {
    return static_cast<std::size_t>(std::upper_bound(main.begin(), main.end(), x) - main.begin());
  }
};

/// What follows from the batches.
void finish_steps(std::vector<LatticeStep>& steps) {
  for (auto& s : steps) s.after_idle = s.kv.empty();
  for (std::size_t k = 0; k < steps.size();) {
    const auto end = std::min(k + static_cast<std::size_t>(steps[k].stretch), steps.size());
    std::int64_t prefills = 0;
    for (std::size_t i = k; i < end; ++i) prefills += steps[i].prefill_tokens > 0;
    for (; k < end; ++k) steps[k].stretch_prefills = prefills;
  }
}

class Solver {
  // Wider rooms say nothing. Steps this even, and evener than at any other place by this factor,
  // are taken for true: chosen on the run of docs/import.md, where they place all parts.
  static constexpr std::int64_t room_max = 16;
  static constexpr double uneven_max = 0.3, clear = 0.8;

 public:
  Solver(const std::vector<LoggedRequest>& log, const LatticeOptions& options, int depth)
      : log_(log),
        options_(options),
        depth_(depth),
        bounds_(times(log), options.tolerance_s),
        parts_(bounds_.time.size()),
        is_first_(bounds_.time.size(), false) {
    for (std::size_t i = 0; i < log_.size(); ++i) is_first_[first(i)] = true;
  }

  StepLattice solve() {
    out_.requests = log_.size();
    out_.depth = depth_;
    out_.boundaries = bounds_.time.size();
    for (std::size_t i = 0; i < log_.size(); ++i) {
      if (log_[i].preempted)
        ++out_.preempted;
      else
        claim(i, first(i), last(i), log_[i].output_tokens - 1);
    }
    if (depth_ > 0) group_scheduled();
    place_in_order();
    for (const double ratio : {clear, 1.0})
      for (int pass = 0; options_.by_time && pass < 10; ++pass) {
        bool placed = false;
        while (place_one(ratio)) {
          placed = true;
          ++(ratio < 1 ? out_.by_time : out_.unclear);
          place_in_order();
        }
        if (!move_guesses() && !placed) break;
      }
    find_steps();
    return std::move(out_);
  }

 private:
  static std::vector<double> times(const std::vector<LoggedRequest>& log) {
    std::vector<double> out;
    for (const auto& r : log) {
      out.push_back(r.scheduled.value_or(r.first_token));
      out.push_back(r.first_token);
      out.push_back(r.last_token);
    }
    return out;
  }
  std::size_t scheduled(std::size_t i) const { return bounds_.of[3 * i]; }
  std::size_t first(std::size_t i) const { return bounds_.of[3 * i + 1]; }
  std::size_t last(std::size_t i) const { return bounds_.of[3 * i + 2]; }

  void claim(std::size_t request, std::size_t a, std::size_t b, std::int64_t steps) {
    if (parts_.join(a, b, steps)) return;
    ++out_.conflicts;
    if (out_.in_conflict.size() < 8) out_.in_conflict.push_back(log_[request].id);
  }

  void claim_prefill(std::size_t request, std::size_t at) {
    if (!log_[request].preempted) claim(request, at, first(request), depth_);
  }

  // Prompts go first come, first served into what a step's budget leaves: of those first scheduled
  // at one boundary only the last can be cut, and none where all that can be there fits.
  void group_scheduled() {
    std::vector<std::size_t> order(log_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return log_[a].queued.value_or(0) < log_[b].queued.value_or(0);
    });
    for (const std::size_t i : order)
      if (log_[i].scheduled) groups_[scheduled(i)].push_back(i);
    for (const auto& [at, group] : groups_)
      for (std::size_t k = 0; k + 1 < group.size(); ++k) claim_prefill(group[k], at);
  }

  // The last of each group, where it cannot have been cut. More of them are sure once it is known
  // who was still prefilled when they were scheduled.
  bool join_whole() {
    bool joined = false;
    for (auto it = groups_.begin(); it != groups_.end(); ++it) {
      const auto& [at, group] = *it;
      const std::size_t last_one = group.back();
      if (whole_.contains(at) || log_[last_one].preempted) continue;
      std::int64_t tokens = 0;
      for (std::size_t i = 0; i < log_.size(); ++i) {
        if (log_[i].preempted) {
          // it may be prefilled again, with what it had generated
          if (scheduled(i) <= at && at < last(i))
            tokens += log_[i].input_tokens + log_[i].output_tokens;
        } else if (scheduled(i) < at && first(i) > at) {
          ++tokens;
          const bool done = parts_.part(first(i)) == parts_.part(at) &&
                            parts_.at(first(i)) - depth_ < parts_.at(at);
          if (!done) tokens += log_[i].input_tokens;
        } else if (first(i) <= at && at < last(i)) {
          ++tokens;
        }
      }
      for (const std::size_t i : group)
        if (!log_[i].preempted) tokens += log_[i].input_tokens;
      if (tokens > options_.token_budget) continue;
      whole_.insert(at);
      joined = joined || parts_.part(at) != parts_.part(first(last_one));
      claim_prefill(last_one, at);
    }
    return joined;
  }

  void place_in_order() {
    for (bool again = true; again;) {
      again = depth_ > 0 && join_whole();
      while (place_one(0)) ++out_.by_order, again = true;
    }
  }

  Neighbours main_part() const {
    Neighbours out;
    out.main = parts_.members(parts_.largest());
    std::sort(out.main.begin(), out.main.end());
    return out;
  }

  Room room(const std::vector<std::size_t>& part, const Neighbours& n) const {
    Room out;
    for (const std::size_t x : part) {
      const std::size_t k = n.after(x);
      if (k > 0) out.least = std::max(out.least, parts_.at(n.main[k - 1]) + 1 - parts_.at(x));
      if (k < n.main.size()) out.most = std::min(out.most, parts_.at(n.main[k]) - 1 - parts_.at(x));
    }
    return out;
  }

  // How uneven the steps before and after the boundaries of a part come out, if it lies at `shift`.
  // Beside a first token there was prefill, so that honest steps are uneven: such boundaries count
  // only where there are no others, and none for more than `honest`.
  double unevenness(const std::vector<std::size_t>& part, const Neighbours& n,
                    std::int64_t shift) const {
    constexpr double honest = 0.5;
    double sum[2] = {}, count[2] = {};
    for (const std::size_t x : part) {
      const std::size_t k = n.after(x);
      if (k == 0 || k == n.main.size()) continue;
      const std::size_t a = n.main[k - 1], b = n.main[k];
      const auto at = parts_.at(x) + shift;
      const double before =
          (bounds_.time[x] - bounds_.time[a]) / static_cast<double>(at - parts_.at(a));
      const double after =
          (bounds_.time[b] - bounds_.time[x]) / static_cast<double>(parts_.at(b) - at);
      const bool prefill = is_first_[x] || is_first_[b];
      sum[prefill] += std::min(std::abs(std::log(before / after)), honest);
      ++count[prefill];
    }
    for (int prefill = 0; prefill < 2; ++prefill)
      if (count[prefill] > 0) return sum[prefill] / count[prefill];
    return std::numeric_limits<double>::infinity();
  }

  struct Place {
    std::int64_t shift = 0;
    double uneven = std::numeric_limits<double>::infinity(), second = uneven;
  };
  Place most_even(const std::vector<std::size_t>& part, const Neighbours& n, const Room& r) const {
    Place out;
    for (auto s = r.least; s <= r.most; ++s) {
      const double uneven = unevenness(part, n, s);
      if (uneven < out.uneven)
        out.second = out.uneven, out.uneven = uneven, out.shift = s;
      else
        out.second = std::min(out.second, uneven);
    }
    return out;
  }

  // Joins one more part to the largest one: one that only one place keeps in order, or the one
  // whose most even place beats its second most clearly, by `ratio` at least (0: order alone).
  bool place_one(double ratio) {
    const Neighbours n = main_part();
    if (n.main.empty()) return false;
    const std::size_t main = parts_.part(n.main.front());
    std::size_t best_part = parts_.count();
    Place best;
    double best_ratio = ratio;
    for (std::size_t p = 0; p < parts_.count(); ++p) {
      if (parts_.members(p).empty() || p == main) continue;
      const Room r = room(parts_.members(p), n);
      if (r.least > r.most) continue;
      if (r.least == r.most) return place(p, r.least, n, !guesses_.empty()), true;
      if (ratio <= 0 || r.most - r.least > room_max) continue;
      const Place found = most_even(parts_.members(p), n, r);
      if (found.uneven > uneven_max || !(found.uneven <= best_ratio * found.second)) continue;
      best_ratio = found.uneven / found.second;
      best_part = p;
      best = found;
    }
    if (best_part == parts_.count()) return false;
    place(best_part, best.shift, n, true);
    return true;
  }

  void place(std::size_t part, std::int64_t shift, const Neighbours& n, bool guess) {
    const auto member = parts_.members(part).front();
    if (guess) guesses_.push_back(parts_.members(part));
    parts_.join(n.main.front(), member, parts_.at(member) + shift - parts_.at(n.main.front()));
  }

  // Those that were placed early had fewer neighbours: each moves to where it is most even now.
  bool move_guesses() {
    bool moved = false;
    for (const auto& guess : guesses_) {
      Neighbours n = main_part();
      std::erase_if(n.main, [&](std::size_t x) {
        return std::find(guess.begin(), guess.end(), x) != guess.end();
      });
      const Room r = room(guess, n);
      if (r.least > r.most || r.most - r.least > room_max) continue;
      const Place found = most_even(guess, n, r);
      if (found.shift == 0 || !(found.uneven < unevenness(guess, n, 0))) continue;
      parts_.shift(guess, found.shift);
      moved = true;
    }
    return moved;
  }

  void find_steps() {
    const Neighbours n = main_part();
    out_.joined = n.main.size();
    out_.index_of_first.assign(log_.size(), -1);
    if (n.main.empty()) return;
    const std::size_t main = parts_.part(n.main.front());
    std::int64_t zero = parts_.at(n.main.front());
    for (const std::size_t x : n.main) zero = std::min(zero, parts_.at(x));
    // Boundaries in order; those out of it are counted and give no steps.
    std::vector<std::pair<std::int64_t, double>> known;
    for (std::size_t k = 0; k < n.main.size(); ++k) {
      const auto at = parts_.at(n.main[k]) - zero;
      if (!known.empty() && at <= known.back().first) {
        ++out_.disordered;
        continue;
      }
      known.emplace_back(at, bounds_.time[n.main[k]]);
    }
    out_.span = known.back().first - known.front().first;
    std::vector<std::size_t> step_at(static_cast<std::size_t>(known.back().first) + 1, SIZE_MAX);
    for (std::size_t k = 1; k < known.size(); ++k) {
      const auto [from, t0] = known[k - 1];
      const auto [to, t1] = known[k];
      const double each = (t1 - t0) / static_cast<double>(to - from);
      for (auto at = from + 1; at <= to; ++at) {
        step_at[static_cast<std::size_t>(at)] = out_.steps.size();
        LatticeStep step;
        step.index = at;
        step.end_s = t0 + each * static_cast<double>(at - from);
        step.time_s = each;
        step.stretch = to - from;
        out_.steps.push_back(std::move(step));
      }
    }
    const auto step = [&](std::int64_t at) -> LatticeStep* {
      if (at < 0 || at >= static_cast<std::int64_t>(step_at.size())) return nullptr;
      const auto found = step_at[static_cast<std::size_t>(at)];
      return found == SIZE_MAX ? nullptr : &out_.steps[found];
    };
    for (std::size_t i = 0; i < log_.size(); ++i) {
      const LoggedRequest& r = log_[i];
      const bool placed = !r.preempted && parts_.part(first(i)) == main &&
                          parts_.part(last(i)) == main &&
                          parts_.at(last(i)) - parts_.at(first(i)) == r.output_tokens - 1;
      if (!placed) {
        const double from = r.scheduled.value_or(r.first_token);
        for (auto& s : out_.steps)
          if (s.end_s > from - options_.tolerance_s &&
              s.end_s - s.time_s < r.last_token + options_.tolerance_s)
            s.complete = false;
        continue;
      }
      const auto begins = parts_.at(first(i)) - zero;
      out_.index_of_first[i] = begins;
      std::int64_t chunks = 1;
      if (r.scheduled && depth_ > 0 && parts_.part(scheduled(i)) == main)
        chunks =
            std::max<std::int64_t>(parts_.at(first(i)) - parts_.at(scheduled(i)) - depth_ + 1, 1);
      for (std::int64_t c = 0; c < chunks; ++c)
        if (LatticeStep* s = step(begins - c))
          s->prefill_tokens += r.input_tokens / chunks + (c == 0 ? r.input_tokens % chunks : 0);
      for (std::int64_t token = 1; token < r.output_tokens; ++token)
        if (LatticeStep* s = step(begins + token)) s->kv.push_back(r.input_tokens + token);
    }
    finish_steps(out_.steps);
  }

  const std::vector<LoggedRequest>& log_;
  const LatticeOptions& options_;
  int depth_;
  Boundaries bounds_;
  Parts parts_;
  std::vector<bool> is_first_;
  std::map<std::size_t, std::vector<std::size_t>> groups_;  // by the boundary that scheduled them
  std::set<std::size_t> whole_;  // boundaries whose last prompt was not cut
  StepLattice out_;
  std::vector<std::vector<std::size_t>> guesses_;  // parts that were placed by time
};

/// Every boundary is seen: a token of somebody arrives at each.
StepLattice from_chunks(const std::vector<LoggedRequest>& log, const LatticeOptions& options) {
  StepLattice out;
  std::vector<double> times;
  for (const auto& r : log) times.insert(times.end(), r.chunks.begin(), r.chunks.end());
  const Boundaries bounds(times, options.tolerance_s);
  out.requests = log.size();
  out.boundaries = out.joined = bounds.time.size();
  out.index_of_first.assign(log.size(), -1);
  if (bounds.time.empty()) return out;
  out.span = static_cast<std::int64_t>(bounds.time.size()) - 1;
  for (std::size_t k = 1; k < bounds.time.size(); ++k) {
    LatticeStep step;
    step.index = static_cast<std::int64_t>(k);
    step.end_s = bounds.time[k];
    step.time_s = bounds.time[k] - bounds.time[k - 1];
    out.steps.push_back(std::move(step));
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    const auto& r = log[i];
    bool steady = true;
    for (std::size_t c = 0; c < r.chunks.size(); ++c, ++at) {
      const std::size_t k = bounds.of[at];
      if (c == 0) {
        out.index_of_first[i] = static_cast<std::int64_t>(k);
        if (k > 0) out.steps[k - 1].prefill_tokens += r.input_tokens;
        continue;
      }
      const std::size_t before = bounds.of[at - 1];
      if (k != before + 1) {
        // It skipped steps, or two of its tokens came at once.
        if (steady && out.in_conflict.size() < 8) out.in_conflict.push_back(r.id);
        steady = false;
        ++out.conflicts;
        for (std::size_t s = std::min(before, k); s <= std::max(before, k); ++s)
          if (s > 0) out.steps[s - 1].complete = false;
      }
      if (k > 0) out.steps[k - 1].kv.push_back(r.input_tokens + static_cast<std::int64_t>(c));
    }
  }
  finish_steps(out.steps);
  return out;
}

}  // namespace

StepLattice solve_lattice(const std::vector<LoggedRequest>& log, const LatticeOptions& options) {
  if (std::any_of(log.begin(), log.end(), [](const auto& r) { return !r.chunks.empty(); }))
    return from_chunks(log, options);
  const bool scheduled =
      std::any_of(log.begin(), log.end(), [](const auto& r) { return r.scheduled.has_value(); });
  if (!scheduled) return Solver(log, options, 0).solve();
  std::array<std::size_t, 4> conflicts{};
  int depth = options.depth;
  LatticeOptions quick = options;
  quick.by_time = false;
  for (int d = 1; d <= 3; ++d)
    conflicts[static_cast<std::size_t>(d)] = Solver(log, quick, d).solve().conflicts;
  if (depth == 0) {
    depth = 1;
    for (int d = 2; d <= 3; ++d)
      if (conflicts[static_cast<std::size_t>(d)] < conflicts[static_cast<std::size_t>(depth)])
        depth = d;
  }
  StepLattice out = Solver(log, options, depth).solve();
  out.conflicts_at = conflicts;
  return out;
}
