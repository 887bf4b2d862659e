#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "hardware/collective/collective.hpp"

namespace {

const CollectiveAlgorithm& ring() {
  const auto* factory = Registry<CollectiveAlgorithmFactory>::find("ring");
  REQUIRE(factory);
  return (*factory)();
}

/// What each rank holds of each chunk: the ranks whose contribution is in it.
using Buffers = std::vector<std::vector<std::set<int>>>;

/// Plays a ring schedule: every round each rank passes on the chunk it received last. The receiver
/// adds it to its own while reducing and puts it in the place of its own while gathering.
/// `first(rank)` is the chunk a rank starts with.
void play(Buffers& buffers, const Schedule& schedule, int rounds, bool reduce,
          std::vector<int>& chunk_of) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::set<int>> in_flight;
    for (const Transfer& t : schedule.transfers)
      in_flight.push_back(buffers[static_cast<std::size_t>(t.from)][static_cast<std::size_t>(
          chunk_of[static_cast<std::size_t>(t.from)])]);
    auto next = chunk_of;
    for (std::size_t i = 0; i < schedule.transfers.size(); ++i) {
      const Transfer& t = schedule.transfers[i];
      const int chunk = chunk_of[static_cast<std::size_t>(t.from)];
      auto& place = buffers[static_cast<std::size_t>(t.to)][static_cast<std::size_t>(chunk)];
      if (reduce)
        place.insert(in_flight[i].begin(), in_flight[i].end());
      else
        place = in_flight[i];
      next[static_cast<std::size_t>(t.to)] = chunk;
    }
    chunk_of = next;
  }
}

std::vector<int> own_chunks(int n) {
  std::vector<int> out;
  for (int r = 0; r < n; ++r) out.push_back(r);
  return out;
}

/// Each rank with its own contribution to all chunks (reduce) or its own chunk alone (gather).
Buffers at_start(int n, bool reduce) {
  Buffers out(static_cast<std::size_t>(n), std::vector<std::set<int>>(static_cast<std::size_t>(n)));
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < n; ++c)
      if (reduce || r == c) out[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)] = {r};
  return out;
}

std::set<int> everybody(int n) {
  std::set<int> out;
  for (int r = 0; r < n; ++r) out.insert(r);
  return out;
}

constexpr Bytes size{5'765'760};  // divides by all of 2..16

}  // namespace

TEST_CASE("after a ring all-reduce every rank holds every chunk reduced over all ranks") {
  for (int n = 2; n <= 16; ++n) {
    const Schedule s = ring().schedule(Collective::all_reduce, size, n);
    CHECK(s.rounds == 2 * (n - 1));
    auto buffers = at_start(n, true);
    auto chunks = own_chunks(n);
    play(buffers, s, s.rounds / 2, true, chunks);
    play(buffers, s, s.rounds - s.rounds / 2, false, chunks);
    for (const auto& rank : buffers)
      for (const auto& chunk : rank) CHECK(chunk == everybody(n));
  }
}

TEST_CASE("one round less would leave an all-reduce unfinished") {
  for (int n = 2; n <= 16; ++n) {
    const Schedule s = ring().schedule(Collective::all_reduce, size, n);
    auto buffers = at_start(n, true);
    auto chunks = own_chunks(n);
    play(buffers, s, n - 1, true, chunks);
    play(buffers, s, s.rounds - n, false, chunks);
    bool all = true;
    for (const auto& rank : buffers)
      for (const auto& chunk : rank) all = all && chunk == everybody(n);
    CHECK_FALSE(all);
  }
}

TEST_CASE(
    "after a ring reduce-scatter every rank holds one chunk reduced over all ranks, no two the "
    "same") {
  for (int n = 2; n <= 16; ++n) {
    const Schedule s = ring().schedule(Collective::reduce_scatter, size, n);
    auto buffers = at_start(n, true);
    auto chunks = own_chunks(n);
    play(buffers, s, s.rounds, true, chunks);
    std::set<int> owned;
    for (int r = 0; r < n; ++r) {
      const int mine = chunks[static_cast<std::size_t>(r)];
      CHECK(buffers[static_cast<std::size_t>(r)][static_cast<std::size_t>(mine)] == everybody(n));
      owned.insert(mine);
    }
    CHECK(owned == everybody(n));
  }
}

TEST_CASE("after a ring all-gather every rank holds the chunk of every rank") {
  for (int n = 2; n <= 16; ++n) {
    const Schedule s = ring().schedule(Collective::all_gather, size, n);
    auto buffers = at_start(n, false);
    auto chunks = own_chunks(n);
    play(buffers, s, s.rounds, false, chunks);
    for (const auto& rank : buffers)
      for (int c = 0; c < n; ++c) CHECK(rank[static_cast<std::size_t>(c)] == std::set<int>{c});
  }
}

TEST_CASE("ring all-reduce sends 2(n-1)/n of the buffer per rank, gather and scatter half of it") {
  for (int n = 2; n <= 16; ++n)
    for (const auto& [op, factor] : {std::pair(Collective::all_reduce, 2),
                                     {Collective::all_gather, 1},
                                     {Collective::reduce_scatter, 1}}) {
      const Schedule s = ring().schedule(op, size, n);
      std::vector<double> sent(static_cast<std::size_t>(n)), received(static_cast<std::size_t>(n));
      for (const Transfer& t : s.transfers) {
        CHECK(t.from != t.to);
        sent[static_cast<std::size_t>(t.from)] += s.rounds * t.bytes;
        received[static_cast<std::size_t>(t.to)] += s.rounds * t.bytes;
      }
      const double expected = factor * (n - 1.0) / n * size.real();
      for (int r = 0; r < n; ++r) {
        CHECK(sent[static_cast<std::size_t>(r)] == Approx(expected).epsilon(1e-12));
        CHECK(received[static_cast<std::size_t>(r)] == sent[static_cast<std::size_t>(r)]);
      }
    }
}

TEST_CASE("the ring does every collective") {
  for (const auto op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
    CHECK(ring().supports(op));
}
