#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/load.hpp"
#include "sim/engine/observer.hpp"
#include "sim/step/price_list.hpp"

/// Host work around the forward pass.
struct HostTimes {
  Duration per_step;            // receive, schedule, broadcast
  Duration per_sequence;        // post-processing of one sequence's token
  Duration request_path;        // client to scheduler
  Duration response_path;       // processed token to client
  Duration tokenise_per_token;  // of the prompt; one request after the other
  Duration cold_start;          // before the first pass of a server
};

/// Conservation counts: in = finished + rejected + running + waiting; pages allocated + free = all.
struct ServerCounts {
  std::int64_t arrived = 0, finished = 0, rejected = 0, retractions = 0;
  std::int64_t passes = 0, decode_passes = 0, dummy_tokens = 0;
  std::int64_t tokens_made = 0, prompt_tokens = 0, cached_tokens = 0;
  std::int64_t pages_total = 0, pages_free_min = 0, pages_free_end = 0;
  std::int64_t scheduler_calls = 0, jumps = 0;
  bool operator==(const ServerCounts&) const = default;
};

/// One server: queue, scheduler, KV pool and the loop that launches passes. What is here is common
/// to the two clocks; they differ in how they keep the running requests.
///
/// The loop (SGLang's event_loop_overlap at depth 2, event_loop_normal at depth 1; vLLM's batch
/// queue): receive, choose a pass, issue it, and only then wait for the results of the pass before
/// (depth 2) or of this one (depth 1). A finish is therefore discovered one pass late at depth 2.
class Server : protected KvLedger {
 public:
  Server(PriceList& prices, EngineSetup& setup, const HostTimes& host, std::int64_t sparse_top_k);
  ~Server() override = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void subscribe(Observer& observer) { observers_.push_back(&observer); }
  /// Serves until nothing is left; false when it gave up because the clock would run over.
  bool run(Load& load);

  ServerCounts counts() const;
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t running() const { return seats_; }
  const KvCache& cache() const { return *cache_; }
  /// Those under way, for tests: visits all that arrived and have not ended.
  void each_request(const std::function<void(const Request&)>& visit) const;

 protected:
  struct Member {
    Request* request = nullptr;
    std::int64_t serial = 0;  // a slot may serve another request by then
    int retractions = 0;
    bool makes_token = true;

    bool still_there() const {
      return request->serial == serial && request->retractions == retractions;
    }
  };
  struct Pass {
    PassRun run;  // as it will be told: of this pass alone
    PassRecord& record = run.last;
    std::int64_t number = 0;         // of all passes, from 1
    std::int64_t decode_number = 0;  // of those that decode, from 1; 0: it does not
    std::vector<Member> extended;    // prompts, in order
    // where a kernel's time depends on single lengths
    std::vector<std::int64_t> kv_each;
    std::vector<PromptPart> prompts;
    // the reference clock's
    std::vector<Member> decoded;
    // the sums' clock's
    std::vector<Member> finishing;  // make their last token in it
    std::vector<Member> kept;       // retracted while it ran, but keep its token
    std::int64_t dropped = 0;       // tokens of it that nobody wants any more

    Pass() = default;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    void clear();
  };

  /// The passes under way, the oldest first: at most two, in places that are used again and again.
  class Pipeline {
   public:
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    Pass& operator[](std::size_t i) { return places_[(oldest_ + i) % places_.size()]; }
    /// The place behind them: of the pass that is being made.
    Pass& next() { return (*this)[size_]; }
    /// The pass at next() is under way.
    void push() { ++size_; }
    /// The oldest is over; it stays as it is until the next but two is made.
    void pop() {
      ++oldest_;
      --size_;
    }

   private:
    std::array<Pass, 4> places_;
    std::size_t oldest_ = 0, size_ = 0;
  };

  // ---- what the clocks do their own way ----
  virtual void fill(SchedulerView& view) = 0;           // the sums over the running requests
  virtual void decode_shape(Pass& pass) = 0;            // everybody running joins the pass
  virtual void join(Request& request, Pass& pass) = 0;  // its prompt is complete with this pass
  virtual void launched(Pass&) {}                       // the pass is priced and under way
  virtual void leave_running(Request& request) = 0;     // retracted: write back what it has
  virtual void collect_decodes(Pass& pass, TimePoint at_client) = 0;
  virtual void first_tokens(Pass& pass, TimePoint at_client) = 0;  // of the prompts in it
  virtual void keep_tokens(Pass& pass, TimePoint at_client) = 0;   // of those retracted meanwhile
  // While a hold is in force, without asking the scheduler:
  virtual bool jump() { return false; }                  // many passes ahead, if it can
  virtual bool repeats_decode() const { return false; }  // whether the next pass may be the same

  // ---- common parts ----
  std::int64_t available() const final { return cache_->available(); }
  std::int64_t cached(const RequestView& waiting) final;
  std::int64_t hold(const RequestView& waiting) final;
  void let_go(const RequestView& waiting) final;
  void admit(const RequestView& request, std::int64_t tokens) final;
  void retract(const RequestView& request) final;

  Request& get(RequestId id) { return *slots_[static_cast<std::size_t>(id)]; }
  void finish(Request& request, TimePoint at_client);
  void somebody_left() {
    if (hold_ && hold_->on_leave) hold_.reset();
  }
  /// One more token of a request that is followed by itself.
  void token_made(Request& request, TimePoint at_client);
  void publish_prompt(Request& request);
  void note_pages() {
    if (const std::int64_t now = cache_->available(); now < counts_.pages_free_min)
      counts_.pages_free_min = now;
  }
  /// When the next request reaches the scheduler as far as is known; never() when none does.
  TimePoint next_arrival() {
    if (!next_known_) ask_load();
    return next_arrival_;
  }
  /// Takes in who has arrived by `until`; `seen_at` says when the scheduler saw whom.
  template <class SeenAt>
  void deliver(TimePoint until, SeenAt seen_at) {
    for (TimePoint at = next_arrival(); at <= until && next_.request; at = next_arrival())
      receive(at, seen_at(at));
  }
  PageSize page_size() const { return sizes_.page_size; }
  /// As EngineSizes::captured_size(), from a table.
  std::int64_t captured_size(std::int64_t batch) const {
    const auto at = static_cast<std::size_t>(batch);
    return at < captured_sizes_.size() ? captured_sizes_[at] : 0;
  }

  PriceList& prices_;
  EngineSetup& setup_;
  const EngineSizes& sizes_;
  const LoopRules& rules_;
  HostTimes host_;
  std::int64_t sparse_top_k_;
  const bool wants_lengths_, caches_prefixes_;
  std::vector<Observer*> observers_;
  std::unique_ptr<KvCache> cache_;

  std::vector<std::unique_ptr<Request>> slots_;
  std::vector<RequestId> free_slots_;
  std::deque<RequestView*> waiting_;
  Request* prefilling_ = nullptr;
  std::int64_t seats_ = 0;  // running and not known to be finished
  ServerCounts counts_;

  TimePoint now_;
  TimePoint gpu_free_;
  Pipeline in_flight_;
  std::optional<Hold> hold_;  // of the last plan, while nothing has happened that ends it

 private:
  Request& new_request();
  void ask_load();
  void receive(TimePoint arrived, TimePoint seen);
  void ended(const Request& request, TimePoint at_client);
  SchedulerView view();
  /// What the request says when it has made so many output tokens; valid until the next call.
  const Content& said(const Request& request, std::int64_t generated);
  const Content& said(const Request& request) { return said(request, request.generated); }
  void ask_scheduler(BatchPlan& plan);
  void apply(const BatchPlan& plan, Pass& pass);
  void extend(Request& request, std::int64_t tokens, Pass& pass);
  TimePoint launch(Pass& pass);
  void await_oldest(TimePoint host_free);
  void collect(Pass& pass);

  Load* load_ = nullptr;
  // What it said of the next request, until one is taken or has ended.
  bool next_known_ = false;
  Load::Sending next_;
  TimePoint next_arrival_;
  std::vector<std::int32_t> captured_sizes_;  // by batch
  TimePoint path_free_;                       // the tokeniser takes one request after the other
  std::int64_t serials_ = 0;
  bool idle_told_ = false;
  std::vector<RequestId> admitted_;  // in the plan being made
  Content said_;
};

/// Touches every request in every pass and announces every token: what the other is held against.
std::unique_ptr<Server> make_reference_server(PriceList& prices, EngineSetup& setup,
                                              const HostTimes& host, std::int64_t sparse_top_k);
/// Keeps sums over the running requests and jumps over passes that only repeat. Equal to the
/// reference to the picosecond.
std::unique_ptr<Server> make_server(PriceList& prices, EngineSetup& setup, const HostTimes& host,
                                    std::int64_t sparse_top_k);
