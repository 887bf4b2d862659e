// The load generator alone: whom it sends next and when, against ends that a test makes up.

#include "sim/workload/client.hpp"

#include <algorithm>
#include <map>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

namespace {

Duration ms(std::int64_t n) { return Duration::picoseconds(n * 1'000'000'000); }
TimePoint at(std::int64_t n) { return TimePoint::at(ms(n)); }

PlannedRequest request(std::int64_t send_at_ms, std::int64_t session = -1) {
  PlannedRequest r;
  r.input = r.output = 1;
  r.send_at = ms(send_at_ms);
  r.session = session;
  return r;
}

/// Hears the clock.
struct Clock final : Observer {
  std::vector<TimePoint> starts;
  void on_clock(TimePoint t) override { starts.push_back(t); }
};

/// Requests at given times; those with a session come again `turns` times in all, `think` after the
/// last turn.
struct Sessions final : RequestSource {
  Sessions(std::vector<PlannedRequest> r, int turns, Duration think)
      : requests(std::move(r)), turns_of_each(turns), pause(think) {}
  bool next(PlannedRequest& r) override {
    if (at == requests.size()) return false;
    r = requests[at++];
    return true;
  }
  bool next_turn(std::int64_t session, PlannedRequest& r) override {
    if (++turn[session] >= turns_of_each) return false;
    r = request(0, session);
    r.send_at = pause;
    return true;
  }
  std::vector<PlannedRequest> requests;
  int turns_of_each;
  Duration pause;
  std::size_t at = 0;
  std::map<std::int64_t, int> turn;
};

WorkloadPlan plan(std::vector<PlannedRequest> requests, std::optional<int> places = {},
                  int turns = 1, Duration think = {}) {
  WorkloadPlan p;
  p.max_concurrency = places;
  p.source = [=] { return std::make_unique<Sessions>(requests, turns, think); };
  return p;
}

// The moment of the next one, which is then sent.
TimePoint sends(Client& client) {
  const Load::Sending s = client.next();
  REQUIRE(s.request);
  client.take();
  return s.at;
}

}  // namespace

TEST_CASE("requests are sent at their times after the clock's start, in order") {
  const WorkloadPlan p = plan({request(0), request(3), request(3), request(10)});
  Client client(p);
  Clock clock;
  client.subscribe(clock);
  for (const auto& [index, when] : {std::pair{0, 0}, {1, 3}, {2, 3}, {3, 10}}) {
    CHECK(client.next().index == index);
    CHECK(client.next().at == at(when));  // asked twice, the same answer
    CHECK(sends(client) == at(when));
  }
  CHECK_FALSE(client.next().request);
  CHECK(clock.starts == std::vector<TimePoint>{at(0)});
}

TEST_CASE("warm-up requests go one by one, then a pause, then the clock starts") {
  WorkloadPlan p = plan({request(0), request(5)});
  p.warm_up = {request(0), request(0)};
  p.pause_after_warm_up = ms(1000);
  Client client(p);
  Clock clock;
  client.subscribe(clock);
  CHECK(client.next().index == -1);
  CHECK(sends(client) == at(0));
  CHECK_FALSE(client.next().request);  // until it has ended
  client.ended(-1, -1, at(40));
  CHECK(client.next().index == -1);
  CHECK(sends(client) == at(40));
  client.ended(-1, -1, at(90));
  // Known beforehand, but the clock starts with the first request of the benchmark.
  CHECK(clock.starts.empty());
  CHECK(client.next().index == 0);
  CHECK(sends(client) == at(1090));
  CHECK(clock.starts == std::vector<TimePoint>{at(1090)});
  CHECK(sends(client) == at(1095));
  CHECK(clock.starts.size() == 1);
}

TEST_CASE("behind a semaphore a request is sent when its time has come and a place is free") {
  const WorkloadPlan p = plan({request(0), request(1), request(2), request(30), request(31)}, 2);
  Client client(p);
  CHECK(sends(client) == at(0));
  CHECK(sends(client) == at(1));
  CHECK_FALSE(client.next().request);  // both places are taken
  client.ended(1, -1, at(12));
  CHECK(sends(client) == at(12));  // waited from 2 on
  client.ended(0, -1, at(15));
  client.ended(2, -1, at(20));
  CHECK(sends(client) == at(30));  // a place is free since 15
  CHECK(sends(client) == at(31));
  CHECK_FALSE(client.next().request);
}

TEST_CASE("a rejected request gives its place back like any other") {
  const WorkloadPlan p = plan({request(0), request(0)}, 1);
  Client client(p);
  CHECK(sends(client) == at(0));
  client.ended(0, -1, at(7));
  CHECK(sends(client) == at(7));
}

TEST_CASE("the next turn of a session is sent a pause after the last one, and keeps its place") {
  // One place, a session of two turns that thinks for 10 ms, and a request that waits behind it.
  const WorkloadPlan p = plan({request(0, 5), request(1)}, 1, 2, ms(10));
  Client client(p);
  CHECK(sends(client) == at(0));
  CHECK_FALSE(client.next().request);
  client.ended(0, 5, at(20));
  CHECK(client.next().request->session == 5);
  CHECK(client.next().index == 1);  // counted as it is sent
  CHECK(sends(client) == at(30));
  CHECK_FALSE(client.next().request);  // the other one still waits
  client.ended(1, 5, at(44));
  CHECK(client.next().request->session == -1);
  CHECK(sends(client) == at(44));
}

TEST_CASE("turns and new requests are sent in the order of time, turns first in a tie") {
  const WorkloadPlan p =
      plan({request(0, 0), request(0, 1), request(25), request(30)}, {}, 2, ms(10));
  Client client(p);
  sends(client), sends(client);
  client.ended(1, 1, at(15));
  client.ended(0, 0, at(20));
  std::vector<std::int64_t> sessions;
  std::vector<TimePoint> times;
  while (client.next().request) {
    sessions.push_back(client.next().request->session);
    times.push_back(sends(client));
  }
  CHECK(sessions == std::vector<std::int64_t>{1, -1, 0, -1});
  CHECK(times == std::vector<TimePoint>{at(25), at(25), at(30), at(30)});
}

TEST_CASE("whatever the ends, nobody is sent early, out of order, or beyond the places") {
  CHECK(rc::check([] {
    const int n = *rc::gen::inRange(1, 15), turns = *rc::gen::inRange(1, 4);
    std::optional<int> places;
    if (*rc::gen::arbitrary<bool>()) places = *rc::gen::inRange(1, 4);
    std::vector<PlannedRequest> requests;
    int when = 0, with_session = 0;
    for (int i = 0; i < n; ++i) {
      const bool session = *rc::gen::arbitrary<bool>();
      with_session += session;
      requests.push_back(request(when, session ? i : -1));
      when += *rc::gen::inRange(0, 20);
    }
    const Duration think = ms(*rc::gen::inRange(0, 15));
    const WorkloadPlan p = plan(requests, places, turns, think);
    Client client(p);
    std::multimap<TimePoint, std::pair<std::int64_t, std::int64_t>> under_way;  // by their ends
    std::map<std::int64_t, TimePoint> ended;                                    // sessions
    TimePoint now;
    std::int64_t sent = 0, first_turns = 0;
    for (;;) {
      const Load::Sending s = client.next();
      if (!s.request && under_way.empty()) break;
      const TimePoint ends = under_way.empty() ? TimePoint::never() : under_way.begin()->first;
      if (!s.request || ends <= s.at) {
        const auto [index, session] = under_way.begin()->second;
        under_way.erase(under_way.begin());
        if (session >= 0) ended[session] = ends;
        const bool another = client.ended(index, session, ends);
        const Load::Sending after = client.next();
        if (!another)
          RC_ASSERT((after.request == s.request && after.at == s.at && after.index == s.index));
        now = ends;
        continue;
      }
      RC_ASSERT(s.at >= now);
      now = s.at;
      RC_ASSERT(s.index == sent++);
      const std::int64_t session = s.request->session;
      if (session >= 0 && ended.count(session)) {
        RC_ASSERT(s.at == ended[session] + think);
      } else {
        RC_ASSERT(s.at >= TimePoint::at(requests[static_cast<std::size_t>(first_turns)].send_at));
        if (!places)
          RC_ASSERT(s.at == TimePoint::at(requests[static_cast<std::size_t>(first_turns)].send_at));
        ++first_turns;
      }
      under_way.emplace(s.at + ms(*rc::gen::inRange(0, 40)), std::pair(s.index, session));
      client.take();
      if (places) RC_ASSERT(static_cast<int>(under_way.size()) <= *places);
    }
    RC_ASSERT(sent == n + with_session * (turns - 1));
  }));
}
