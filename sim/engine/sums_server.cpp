// The clock of sums and jumps. All running requests decode together, so one counter of decode
// passes D and a few integer sums describe them: kv = offset + D, generated = base + 1 + C - joined
// with C the decode passes whose results are in. A pass changes only D; joining and leaving change
// a few integers. Between two events a decode pass repeats itself with a slowly growing price, and
// n of them are summed in closed form. Everything else runs through the common loop.

#include <algorithm>
#include <cstddef>

#include "sim/base/assert.hpp"
#include "sim/engine/near_queue.hpp"
#include "sim/engine/ordered_queue.hpp"
#include "sim/engine/server.hpp"

namespace {

constexpr std::int64_t longest_jump = std::int64_t{1} << 19;  // n (n - 1) / 2 steps stay in range

class SumsServer final : public Server {
 public:
  SumsServer(PriceList& prices, EngineSetup& setup, const HostTimes& host,
             std::int64_t sparse_top_k)
      : Server(prices, setup, host, sparse_top_k),
        by_residue_(static_cast<std::size_t>(setup.sizes.page_size)) {}

 private:
  /// What the sums know of a running request, by slot.
  struct Run {
    std::int64_t joined = 0;        // decode passes chosen before it joined
    std::int64_t base = 0;          // tokens it had made before
    std::int64_t offset = 0;        // kv tokens - decode passes
    std::size_t residue = 0;        // of it, modulo the page size
    std::int64_t left = 0;          // the decode pass it was last part of, once it decodes no more
    std::int64_t join_number = 0;   // of all joins: names this stay among the running
    std::int64_t prefill_pass = 0;  // that made its first token
    RequestId before = -1, after = -1;  // in the order they joined
    bool decodes = false, below_cap = false, clipped = false;
  };
  /// Something that happens to one stay at a count of decode passes, or is as long as `key`.
  struct Entry {
    std::int64_t key, join_number;
    RequestId id;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.key != b.key ? a.key > b.key : a.join_number > b.join_number;
    }
  };
  struct Shorter {
    bool operator()(const Entry& a, const Entry& b) const { return a.key < b.key; }
  };
  /// Requests whose last token came with the same pass with prompts.
  struct Fresh {
    TimePoint at;
    std::int64_t requests = 0, pass = 0;
  };

  Run& run(RequestId id) { return runs_[static_cast<std::size_t>(id)]; }
  Run& run(const Request& r) { return run(r.id); }
  bool stays(const Entry& e) { return run(e.id).join_number == e.join_number; }

  // ---- the sums ----

  // Those whose kv fills its last page before the next pass: its token needs another one.
  std::int64_t pages_of_next() const { return by_residue_[filling_]; }
  // `filling_` is the residue of -launched_.
  void launch_one() {
    ++launched_;
    filling_ = (filling_ == 0 ? by_residue_.size() : filling_) - 1;
  }

  void start_decoding(Request& r, Run& u) {
    u.decodes = true;
    u.offset = r.kv.tokens - launched_;
    ++decoding_;
    offsets_ += u.offset;
    u.residue = static_cast<std::size_t>(r.kv.tokens % page_size()) + filling_;
    if (u.residue >= by_residue_.size()) u.residue -= by_residue_.size();
    ++by_residue_[u.residue];
    longest_.push({u.offset, u.join_number, r.id});
    if (sparse_top_k_ > 0 && r.kv.tokens < sparse_top_k_) {
      u.below_cap = true;
      ++below_cap_;
      below_cap_offsets_ += u.offset;
      crossings_.push({sparse_top_k_ - u.offset, u.join_number, r.id});
    }
  }

  void stop_decoding(Run& u) {
    SIM_ASSERT(u.decodes);
    u.decodes = false;
    u.left = launched_;
    --decoding_;
    offsets_ -= u.offset;
    --by_residue_[u.residue];
    if (u.below_cap) drop_below_cap(u);
    // Those who left stay in the queue of lengths until they come up; a long life at its top would
    // let it grow with all requests ever seen.
    if (longest_.size() > 64 + 2 * static_cast<std::size_t>(decoding_))
      longest_.erase_if([this](const Entry& e) { return !stays(e) || !run(e.id).decodes; });
  }

  void drop_below_cap(Run& u) {
    u.below_cap = false;
    --below_cap_;
    below_cap_offsets_ -= u.offset;
  }

  // Who reached the cap with the last pass gains no more capped tokens.
  void cross_cap() {
    if (sparse_top_k_ == 0) return;
    while (!crossings_.empty() && crossings_.top().key <= launched_) {
      const Entry e = crossings_.top();
      crossings_.pop();
      if (stays(e) && run(e.id).below_cap) drop_below_cap(run(e.id));
    }
  }

  std::int64_t kv_max() {
    while (!longest_.empty()) {
      const Entry& e = longest_.top();
      if (stays(e) && run(e.id).decodes) return e.key + launched_;
      longest_.pop();
    }
    return 0;
  }

  // Output tokens that may still come, as known from results: what counts as reserved.
  std::int64_t may_make(const Request& r, const Run& u) const {
    return r.max_new - u.base - 1 + u.joined - collected_;
  }

  void reserve(const Request& r, Run& u) {
    u.clipped = may_make(r, u) >= sizes_.reserve_clip;
    if (u.clipped) {
      ++clipped_;
      clips_.push(
          {r.max_new - u.base - 1 + u.joined - sizes_.reserve_clip + 1, u.join_number, r.id});
    } else {
      reserve_below(r, u, +1);
    }
  }
  void reserve_below(const Request& r, const Run& u, int sign) {
    reserving_ += sign;
    reserved_ += sign * (r.max_new - u.base - 1 + u.joined);
  }
  void unreserve(const Request& r, const Run& u) {
    if (u.clipped)
      --clipped_;
    else
      reserve_below(r, u, -1);
  }

  void fill(SchedulerView& view) override {
    while (!clips_.empty() && clips_.top().key <= collected_) {
      const Entry e = clips_.top();
      clips_.pop();
      if (!stays(e) || !run(e.id).clipped) continue;
      run(e.id).clipped = false;
      --clipped_;
      reserve_below(get(e.id), run(e.id), +1);
    }
    view.decoding = decoding_;
    view.decode_pages = pages_of_next();
    view.reserved_tokens = reserved_ - reserving_ * collected_ + clipped_ * sizes_.reserve_clip;
    // The first token of those whose prompt is just being computed is not known yet.
    for (std::size_t i = 0; i < in_flight_.size(); ++i) {
      const Pass& pass = in_flight_[i];
      if (pass.decode_number > 0) continue;
      for (const Member& m : pass.extended)
        if (m.makes_token && m.still_there() &&
            may_make(*m.request, run(*m.request)) < sizes_.reserve_clip)
          ++view.reserved_tokens;
    }
  }

  std::int64_t decoding() const override { return decoding_; }

  void grow_running() override {
    cache_->take(pages_of_next());
    launch_one();
    note_pages();
  }

  void each_running(const std::function<void(const RequestView&)>& visit) override {
    std::vector<RequestId> ids;
    for (RequestId id = first_; id >= 0; id = run(id).after) ids.push_back(id);
    for (const RequestId id : ids) {
      Request& r = get(id);
      write_back(r);
      visit(r);
    }
  }

  // What the request would say of itself if it were followed by itself.
  void write_back(Request& r) {
    const Run& u = run(r);
    r.generated = known(r, u);
    r.kv.tokens = u.offset + (u.decodes ? launched_ : u.left);
    r.decodes = u.decodes;
  }
  std::int64_t known(const Request&, const Run& u) const {
    return u.prefill_pass <= collected_passes_ ? u.base + 1 + collected_ - u.joined : u.base;
  }

  // ---- passes ----

  void decode_shape(Pass& pass) override {
    pass.decode_number = launched_;
    PassShape& s = pass.record.shape;
    cross_cap();
    s.decode_sequences = decoding_;
    s.decode_kv_tokens = offsets_ + decoding_ * launched_;
    s.decode_kv_tokens_capped = sparse_top_k_ > 0 ? below_cap_offsets_ + below_cap_ * launched_ +
                                                        (decoding_ - below_cap_) * sparse_top_k_
                                                  : s.decode_kv_tokens;
    s.kv_max = kv_max();
    if (wants_lengths_) gather_lengths(pass);
  }
  [[gnu::noinline]] void gather_lengths(Pass& pass) {
    for (RequestId id = first_; id >= 0; id = run(id).after)
      if (run(id).decodes) pass.kv_each.push_back(run(id).offset + launched_);
  }

  void join(Request& r, Pass& pass) override {
    runs_.resize(std::max(runs_.size(), slots_.size()));
    Run& u = run(r);
    u = {};
    u.joined = launched_;
    u.base = r.generated;
    u.join_number = ++joins_;
    u.prefill_pass = pass.number;
    u.before = last_;
    (last_ >= 0 ? run(last_).after : first_) = r.id;
    last_ = r.id;
    reserve(r, u);
    if (rules_.skips_finished && r.max_new - u.base == 1) {
      u.offset = r.kv.tokens - launched_;
      u.left = launched_;
    } else {
      start_decoding(r, u);
    }
    if (const std::int64_t to_make = r.output - u.base; to_make > 1)
      finishes_.push({u.joined + to_make - 1, u.join_number, r.id}, launched_);
  }

  void unlink(Run& u) {
    (u.before >= 0 ? run(u.before).after : first_) = u.after;
    (u.after >= 0 ? run(u.after).before : last_) = u.before;
    u.before = u.after = -1;
  }

  void launched(Pass& pass) override {
    if (pass.decode_number == 0) return;
    while (!finishes_.empty() && finishes_.top().key <= launched_) makes_last_token(pass);
  }
  // Who comes to its end first makes its last token in the pass. Apart, as are others that few
  // passes need: what every pass runs through has fewer registers to save.
  [[gnu::noinline]] void makes_last_token(Pass& pass) {
    const Entry e = finishes_.top();
    finishes_.pop();
    if (!stays(e)) return;
    Request& r = get(e.id);
    Run& u = run(e.id);
    SIM_ASSERT(e.key == launched_);
    pass.finishing.push_back({&r, r.serial, r.retractions, true});
    if (rules_.skips_finished && r.output == r.max_new) {
      stop_decoding(u);
      somebody_left();
    }
  }

  // Takes it out of the running; `generated` and `kv` are written back before.
  void leave(Request& r, Run& u) {
    const bool first_is_in = u.prefill_pass <= collected_passes_;
    if (first_is_in) {
      if (collected_ > u.joined) {
        --streaming_;
      } else {
        const auto group = std::find_if(fresh_.begin(), fresh_.end(),
                                        [&](const Fresh& f) { return f.pass == u.prefill_pass; });
        SIM_ASSERT(group != fresh_.end() && group->requests > 0);
        --group->requests;
      }
    }
    unreserve(r, u);
    if (u.decodes) stop_decoding(u);
    unlink(u);
    u.join_number = 0;
  }

  void leave_running(Request& r) override {
    Run& u = run(r);
    write_back(r);
    if (u.prefill_pass <= collected_passes_) {
      if (collected_ > u.joined) r.last_token = last_decode_;
    }
    // Its token in the pass in flight is lost, or kept and then followed by itself.
    for (std::size_t i = 0; i < in_flight_.size(); ++i) {
      Pass& pass = in_flight_[i];
      const bool prefills = pass.number == u.prefill_pass;
      const bool decodes =
          pass.decode_number > u.joined && (u.decodes || pass.decode_number <= u.left);
      if (!prefills && !decodes) continue;
      if (decodes) ++pass.dropped;
      if (rules_.keeps_token_in_flight) pass.kept.push_back({&r, r.serial, r.retractions, true});
    }
    leave(r, u);
  }

  std::int64_t fresh() const {
    std::int64_t n = 0;
    for (const Fresh& f : fresh_) n += f.requests;
    return n;
  }

  // Everybody whose first token is in has the next one; how many they are. This and gaps() are
  // common to passes and jumps: one copy of their code instead of several.
  [[gnu::noinline]] std::int64_t next_tokens(TimePoint at_client) {
    if (streaming_ > 0) gaps({at_client - last_decode_, {}, 1, streaming_});
    for (const Fresh& f : fresh_)
      if (f.requests > 0) gaps({at_client - f.at, {}, 1, f.requests});
    streaming_ += fresh();
    fresh_.clear();
    last_decode_ = at_client;
    return streaming_;
  }

  void collect_decodes(Pass& pass, TimePoint at_client) override {
    collected_ = pass.decode_number;
    const std::int64_t live = next_tokens(at_client);
    SIM_ASSERT(live == pass.record.shape.decode_sequences - pass.dropped);
    counts_.tokens_made += live;
    if (pass.dropped > 0)
      counts_.dummy_tokens +=
          pass.dropped - (rules_.keeps_token_in_flight ? kept_decodes(pass) : 0);
    for (const Member& m : pass.finishing) {
      if (!m.still_there()) continue;
      Request& r = *m.request;
      end(r, at_client);
    }
  }

  // Members of `kept` that were decoding in the pass, not making their first token in it.
  static std::int64_t kept_decodes(const Pass& pass) {
    std::int64_t n = static_cast<std::int64_t>(pass.kept.size());
    for (const Member& k : pass.kept)
      for (const Member& e : pass.extended)
        n -= e.serial == k.serial && e.makes_token && e.retractions == k.retractions;
    return n;
  }

  // A running request's last token is in.
  [[gnu::noinline]] void end(Request& r, TimePoint at_client) {
    Run& u = run(r);
    write_back(r);
    SIM_ASSERT(r.generated == r.output);
    r.last_token = at_client;
    if (u.decodes)
      for (std::size_t i = 0; i < in_flight_.size(); ++i)
        if (in_flight_[i].decode_number > u.joined) ++in_flight_[i].dropped;
    leave(r, u);
    finish(r, at_client);
  }

  void first_tokens(Pass& pass, TimePoint at_client) override {
    collected_passes_ = pass.number;
    for (const Member& m : pass.extended) {
      if (!m.makes_token) continue;
      if (!m.still_there()) {
        if (!rules_.keeps_token_in_flight) ++counts_.dummy_tokens;
        continue;
      }
      Request& r = *m.request;
      r.generated = run(r).base;
      token_made(r, at_client);
      if (fresh_.empty() || fresh_.back().pass != pass.number)
        fresh_.push_back({at_client, 0, pass.number});
      ++fresh_.back().requests;
      if (r.generated == r.output)
        end(r, at_client);
      else if (!rules_.shares_at_admission)
        publish_prompt(r);
    }
  }

  void keep_tokens(Pass& pass, TimePoint at_client) override {
    collected_passes_ = pass.number;
    // Retraction goes from the last to join to the first.
    for (auto m = pass.kept.rbegin(); m != pass.kept.rend(); ++m) {
      Request& r = *m->request;
      token_made(r, at_client);
      if (r.generated == r.output) finish(r, at_client);
    }
  }

  [[gnu::noinline]] void gaps(const GapRun& run) {
    for (Observer* o : observers_) o->on_gaps(run);
  }

  // ---- the jump ----

  // n(n-1)/2 steps on top of n firsts.
  static Duration sum(Duration first, Duration step, std::int64_t n) {
    return n * first + (n * (n - 1) / 2) * step;
  }

  // The moments at which a run of equal passes is chosen: the first now, the second `to_second`
  // later, each next one after `period`, which grows by `growth`.
  struct Choices {
    TimePoint first;
    Duration to_second, period, growth;
    TimePoint at(std::int64_t k) const {
      return k == 0 ? first : first + to_second + sum(period, growth, k - 1);
    }
    // How many lie before `end`, at most `most`.
    std::int64_t before(TimePoint end, std::int64_t most) const {
      if (at(most - 1) < end) return most;
      if (first >= end) return 0;
      std::int64_t low = 0, high = most - 1;  // choice `low` lies before, `high` does not
      while (high - low > 1) {
        const std::int64_t middle = (low + high) / 2;
        (at(middle) < end ? low : high) = middle;
      }
      return high;
    }
  };

  bool repeats_decode() const override {
    return hold_->passes > 0 && now_ < hold_->until && decoding_ > 0 &&
           pages_of_next() <= cache_->available();
  }

  bool jump() override {
    const bool late = sizes_.loop_depth == 2;  // results are taken one pass late
    // Where single lengths count, prices do not go on evenly.
    if (wants_lengths_ || in_flight_.size() != std::size_t{late}) return false;
    if (decoding_ == 0 || prefilling_) return false;
    if (late && !is_like_next(in_flight_[0])) return false;
    return streaming_ + fresh() == decoding_ && jump_from_here(late);
  }

  [[gnu::noinline]] bool jump_from_here(bool late) {
    std::int64_t n = passes_alike(late);
    if (n < 1) return false;

    Pass& next = in_flight_.next();
    first_of_jump(next, late);
    PassRecord& record = next.record;
    const DecodeRamp ramp =
        prices_.ramp(record.shape, record.padded, record.captured, decoding_, below_cap_);
    n = std::min(n, ramp.good_for);
    if (!ramp.rising) return false;
    const Timeline& t = ramp.first;
    const Duration growth = ramp.device_step;
    const Duration after = decoding_ * host_.per_sequence;
    const Duration issue = host_.per_step + t.host;
    const TimePoint idle_end = now_ + host_.per_step + t.span;  // when the GPU waits for it
    Choices c{now_, {}, {}, {}};
    bool gpu_paces = false;
    if (!late) {
      // The GPU is idle at each launch; only a captured pass grows evenly.
      if (!record.captured || gpu_free_ + t.device > idle_end) return false;
      c.to_second = host_.per_step + t.span + after;
      c.period = c.to_second + growth;
      c.growth = growth;
    } else if (const TimePoint done = gpu_free_; now_ + issue <= done) {
      // The GPU sets the pace: choice k + 1 follows the end of pass k - 1.
      const Timeline second = prices_.ramp_at(1);
      if (idle_end > done + t.device || after + issue > t.device ||
          after + host_.per_step + (second.span - second.device) > t.device)
        return false;
      gpu_paces = true;
      c.to_second = done + after - now_;
      c.period = t.device;
      c.growth = growth;
    } else {
      // The host sets the pace, as long as the GPU keeps up.
      if (done + t.device > idle_end) return false;
      const Duration pace = issue + after;
      const auto keeps_up = [&](std::int64_t k) {
        const Timeline last = prices_.ramp_at(k);
        return last.device <= pace && last.span <= pace + t.host;
      };
      if (!keeps_up(n - 1)) {
        if (!keeps_up(0)) return false;
        std::int64_t low = 0, high = n - 1;  // pass `low` keeps up, `high` does not
        while (high - low > 1) {
          const std::int64_t middle = (low + high) / 2;
          (keeps_up(middle) ? low : high) = middle;
        }
        n = high;
      }
      c.to_second = c.period = pace;
    }
    TimePoint stop = hold_->until;
    if (hold_->on_arrival) stop = std::min(stop, next_arrival());
    n = c.before(stop, n);
    // Whole clock: leave the end of time to the loop.
    if (n < 1 || c.at(n).since_start() > Duration::max()) return false;

    const Timeline last = prices_.ramp_at(n - 1);
    record.launched = c.at(n - 1) + host_.per_step;
    record.finished =
        gpu_paces ? gpu_free_ + sum(t.device, growth, n) : record.launched + last.span;
    record.device = last.device;
    apply_jump(c, n, growth, late);
    return true;
  }

  // Whether the pass in flight is one like the next: of the same requests, and its results change
  // nothing.
  bool is_like_next(const Pass& pass) const {
    return pass.extended.empty() && pass.finishing.empty() && pass.kept.empty() &&
           pass.dropped == 0 && pass.record.batch == decoding_;
  }

  // Decode passes from here on that differ by their KV tokens alone, as far as those who decode
  // and their pages say. Where results are taken late the last of them may be one with somebody's
  // last token.
  std::int64_t passes_alike(bool late) {
    while (!finishes_.empty() && !stays(finishes_.top())) finishes_.pop();
    if (finishes_.empty()) return 0;
    std::int64_t n =
        std::min({finishes_.top().key - launched_ - !late, longest_jump, hold_->passes});
    cross_cap();
    while (!crossings_.empty() && !(stays(crossings_.top()) && run(crossings_.top().id).below_cap))
      crossings_.pop();
    if (!crossings_.empty()) n = std::min(n, crossings_.top().key - launched_);
    // Whole cycles of pages take a page for everybody.
    const std::int64_t available = cache_->available();
    if ((n / page_size() + 2) * decoding_ <= available) return n;
    return std::min(n, (available / decoding_ - 1) * page_size());
  }

  // What each pass of a jump adds to the capped sum.
  std::int64_t capped_gain() const { return sparse_top_k_ > 0 ? below_cap_ : decoding_; }

  void first_of_jump(Pass& pass, bool late) {
    pass.clear();
    PassRecord& record = pass.record;
    if (late) {
      record = in_flight_[0].record;
      grow(record.shape, 1);
      return;
    }
    ++launched_;
    decode_shape(pass);
    --launched_;
    record.shape.heads_rows = record.batch = record.padded = decoding_;
    if (const std::int64_t size = captured_size(decoding_); size > 0) {
      record.padded = size;
      record.captured = true;
    }
  }
  void grow(PassShape& shape, std::int64_t passes) const {
    shape.decode_kv_tokens += passes * decoding_;
    shape.decode_kv_tokens_capped += passes * capped_gain();
    shape.kv_max += passes;
  }

  // Goes ahead by n passes, the last of which is at next(); `growth` is what the GPU needs more for
  // each.
  void apply_jump(const Choices& c, std::int64_t n, Duration growth, bool late) {
    Pass& next = in_flight_.next();
    const std::int64_t cycles = n / page_size(), rest = n % page_size();
    std::int64_t pages = cycles * decoding_;
    for (std::int64_t k = 0; k < rest; ++k) pages += pages_of_next(), launch_one();
    launched_ += n - rest;
    cache_->take(pages);
    note_pages();
    grow(next.record.shape, n - 1);
    // n results are taken: of these, or of the pass in flight and all but the last of these.
    Pass& told = late ? in_flight_[0] : next;
    const std::int64_t here = late ? n - 1 : n;
    if (late) grow(told.record.shape, n - 1);
    cross_cap();
    counts_.passes += n;
    counts_.decode_passes += n;
    counts_.tokens_made += n * decoding_;
    hold_->passes -= n;
    setup_.scheduler->on_repeat();
    next.decode_number = launched_;
    next.number = counts_.passes;
    next.record.free_pages = cache_->available();
    gpu_free_ = next.record.finished;
    now_ = c.at(n);

    const TimePoint first = c.at(1);
    next_tokens(first + host_.response_path);
    PassRun& run = told.run;
    run.passes = n;
    run.first_processed = first;
    run.device = sum(next.record.device - (n - 1) * growth, growth, here);
    if (late) run.device += told.record.device;
    if (n > 1) {
      if (late) told.record.device = next.record.device - growth;
      run.gap = c.at(2) - first;
      run.gap_step = c.growth;
      gaps({run.gap, run.gap_step, n - 1, decoding_});
      last_decode_ = now_ + host_.response_path;
    }
    told.record.processed = now_;
    for (Observer* o : observers_) o->on_passes(run);
    collected_ = launched_ - late;
    collected_passes_ = counts_.passes - late;
    if (late) {
      in_flight_.push();
      in_flight_.pop();
      launched(next);
    }
    // Who arrived on the way, if nobody waited for it, was seen at the next choice.
    deliver(c.at(n - 1), [&](TimePoint t) { return c.at(c.before(t, n)); });
  }

  std::vector<Run> runs_;
  RequestId first_ = -1, last_ = -1;  // of the running, in the order they joined
  std::int64_t joins_ = 0;
  std::int64_t launched_ = 0;          // decode passes chosen
  std::int64_t collected_ = 0;         // decode passes whose results are in
  std::int64_t collected_passes_ = 0;  // passes whose results are in
  std::int64_t decoding_ = 0, offsets_ = 0;
  std::vector<std::int64_t> by_residue_;  // of offset modulo page size
  std::size_t filling_ = 0;
  std::int64_t below_cap_ = 0, below_cap_offsets_ = 0;
  std::int64_t reserving_ = 0, reserved_ = 0, clipped_ = 0;
  NearQueue<Entry, Later> finishes_;
  OrderedQueue<Entry, Later> crossings_, clips_;
  OrderedQueue<Entry, Shorter> longest_;
  std::int64_t streaming_ = 0;  // whose last token came with the last decode pass
  TimePoint last_decode_;       // at the client
  std::vector<Fresh> fresh_;
};

}  // namespace

std::unique_ptr<Server> make_server(PriceList& prices, EngineSetup& setup, const HostTimes& host,
                                    std::int64_t sparse_top_k) {
  return std::make_unique<SumsServer>(prices, setup, host, sparse_top_k);
}
