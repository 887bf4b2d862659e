// Plays the schedule of every algorithm on buffers: what a rank holds of each chunk is the set of
// ranks whose contribution is in it.

#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "hardware/collective/collective.hpp"

namespace {

using Contributions = std::multiset<int>;
using Buffers = std::vector<std::vector<Contributions>>;  // [rank][chunk]

Contributions& at(Buffers& b, int rank, int chunk) {
  return b[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
}

Contributions everybody(int n) {
  Contributions out;
  for (int r = 0; r < n; ++r) out.insert(r);
  return out;
}

Buffers at_start(Collective op, int n, int chunks) {
  Buffers out(static_cast<std::size_t>(n),
              std::vector<Contributions>(static_cast<std::size_t>(chunks)));
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < chunks; ++c) {
      const bool own = op == Collective::all_reduce || op == Collective::reduce_scatter ||
                       (op == Collective::broadcast && r == 0) ||
                       (op == Collective::all_to_all && c / n == r) ||
                       ((op == Collective::all_gather || op == Collective::send_recv) && c == r);
      if (own) at(out, r, c) = {r};
    }
  return out;
}

/// Everything that a rank must hold in the end, and nothing counted twice.
bool complete(Collective op, int n, int chunks, Buffers& b) {
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < chunks; ++c) {
      const Contributions& here = at(b, r, c);
      bool good = true;
      switch (op) {
        case Collective::all_reduce:
          good = here == everybody(n);
          break;
        case Collective::reduce_scatter:
          good = c != r || here == everybody(n);
          break;
        case Collective::broadcast:
          good = here == Contributions{0};
          break;
        case Collective::all_gather:
          good = here == Contributions{c};
          break;
        case Collective::send_recv:
          good = c != (r + n - 1) % n || here == Contributions{c};
          break;
        case Collective::all_to_all:
          good = c % n != r || here == Contributions{c / n};
          break;
      }
      if (!good) return false;
    }
  return true;
}

/// False when a rank sends a chunk of which it has nothing.
bool play(Buffers& b, const Round& round) {
  const Buffers before = b;
  std::map<std::pair<int, int>, bool> taken;
  for (const Transfer& t : round)
    for (int c = t.first; c < t.first + t.count; ++c) {
      const auto& sent = before[static_cast<std::size_t>(t.from)][static_cast<std::size_t>(c)];
      if (sent.empty()) return false;
      if (t.reduce)
        at(b, t.to, c).insert(sent.begin(), sent.end());
      else
        at(b, t.to, c) = sent;
    }
  return true;
}

template <class Law>
void on_every_schedule(Law law) {
  for (const auto& [name, make] : Registry<CollectiveAlgorithmFactory>::entries())
    for (const Collective op : all_collectives())
      for (int n = 2; n <= 16; ++n) {
        Ranks ranks(n);
        if (n % 2 == 0)
          for (int r = 0; r < n; ++r) ranks.island.push_back(r / (n / 2));
        if (!make().supports(op, ranks)) continue;
        INFO(name << ", " << ::name(op) << ", " << n << " ranks");
        law(name, op, n, make().schedule(op, Bytes(5'765'760), ranks));  // divides by all of 2..16
      }
}

}  // namespace

TEST_CASE("after every algorithm every rank holds what the collective promises") {
  std::map<std::string, int> played;
  on_every_schedule([&](const std::string& name, Collective op, int n, const Schedule& s) {
    Buffers b = at_start(op, n, s.chunks);
    for (const Round& round : s.rounds) REQUIRE(play(b, round));
    CHECK(complete(op, n, s.chunks, b));
    ++played[name];
  });
  CHECK(played.size() == Registry<CollectiveAlgorithmFactory>::entries().size());
  CHECK(played.size() >= 7);
}

TEST_CASE("without its last round no algorithm would be done") {
  on_every_schedule([](const std::string&, Collective op, int n, const Schedule& s) {
    Buffers b = at_start(op, n, s.chunks);
    for (std::size_t i = 0; i + 1 < s.rounds.size(); ++i) play(b, s.rounds[i]);
    CHECK_FALSE(complete(op, n, s.chunks, b));
  });
}

TEST_CASE("the chunks of a schedule make its buffer") {
  on_every_schedule([](const std::string&, Collective op, int n, const Schedule& s) {
    const int per_buffer = op == Collective::all_to_all  ? n
                           : op == Collective::send_recv ? 1
                                                         : s.chunks;
    CHECK(per_buffer * s.chunk_bytes == Approx(5'765'760).epsilon(1e-12));
  });
}

TEST_CASE("no rank sends to itself, and all bytes that are sent arrive") {
  on_every_schedule([](const std::string&, Collective, int n, const Schedule& s) {
    std::vector<double> sent(static_cast<std::size_t>(n)), received(static_cast<std::size_t>(n));
    for (const Round& round : s.rounds) {
      CHECK_FALSE(round.empty());
      for (const Transfer& t : round) {
        CHECK(t.from != t.to);
        CHECK((t.first >= 0 && t.count >= 1 && t.first + t.count <= s.chunks));
        sent[static_cast<std::size_t>(t.from)] += t.count * s.chunk_bytes;
        received[static_cast<std::size_t>(t.to)] += t.count * s.chunk_bytes;
      }
    }
    double out = 0, in = 0;
    for (const double x : sent) out += x;
    for (const double x : received) in += x;
    CHECK(out == Approx(in).epsilon(1e-12));
  });
}

TEST_CASE("ring, two-shot and pairwise send what the bus factor says out of every rank") {
  on_every_schedule([](const std::string& name, Collective op, int n, const Schedule& s) {
    if (name != "ring" && name != "two_shot" && name != "pairwise") return;
    if (op == Collective::broadcast) return;  // the last rank of a chain sends nothing
    std::vector<double> sent(static_cast<std::size_t>(n));
    for (const Round& round : s.rounds)
      for (const Transfer& t : round)
        sent[static_cast<std::size_t>(t.from)] += t.count * s.chunk_bytes;
    for (const double x : sent) CHECK(x == Approx(bus_factor(op, n) * 5'765'760).epsilon(1e-12));
  });
}

TEST_CASE("rounds: a ring all-reduce takes 2(n-1), recursive doubling log2 n, one-shot one") {
  const auto rounds = [](const char* name, Collective op, int n) {
    return collective_algorithm(name).schedule(op, Bytes(1 << 20), n).rounds.size();
  };
  for (int n = 2; n <= 16; ++n) {
    CHECK(rounds("ring", Collective::all_reduce, n) == 2 * (static_cast<std::size_t>(n) - 1));
    CHECK(rounds("ring", Collective::all_gather, n) == static_cast<std::size_t>(n) - 1);
    CHECK(rounds("one_shot", Collective::all_reduce, n) == 1);
    CHECK(rounds("two_shot", Collective::all_reduce, n) == 2);
  }
  CHECK(rounds("recursive_doubling", Collective::all_reduce, 8) == 3);
  CHECK(rounds("recursive_doubling", Collective::all_gather, 16) == 4);
}

TEST_CASE("a hierarchical all-reduce sends a quarter of the vector per other island of four") {
  Ranks ranks(8);
  ranks.island = {0, 0, 0, 0, 1, 1, 1, 1};
  const Schedule s =
      collective_algorithm("hierarchical").schedule(Collective::all_reduce, Bytes(4096), ranks);
  double across = 0;
  for (const Transfer& t : s.rounds[1])
    if (t.from == 0) across += t.count * s.chunk_bytes;
  CHECK(across == 1024);
}
