#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "calibrate/measure/back_end.hpp"
#include "sim/base/json.hpp"

/// How the processes of a team are started.
struct RankTeamOptions {
  std::string plugin;                              // its file
  int ranks = 1;                                   // rank r takes GPU r
  std::map<std::string, std::string> environment;  // beside ours: NCCL_PROTO=Simple
  std::vector<std::string> command;                // of one rank; empty: this program
  std::chrono::milliseconds start_patience{60000}, patience{20000};  // with one step of all ranks
};

/// The ranks of a collective, one process each, as in a server: a crash takes one point, not the
/// run, and settings that a library reads once per process (all of NCCL's) get processes of their
/// own. A rank is `ceiling calibrate worker`; requests and answers are lines of JSON.
///
/// When a rank dies, hangs or fails, all are ended and the next prepare() starts a new team, until
/// three starts in a row were in vain: then the last one's reason stands. No rank outlives this
/// object or this process. Not for several threads, and the thread that prepares must live as long
/// as the ranks.
class RankTeam {
 public:
  explicit RankTeam(RankTeamOptions options);
  ~RankTeam();
  RankTeam(RankTeam&& other) noexcept;
  RankTeam& operator=(RankTeam&&) = delete;

  /// On every rank, starting them if need be; anything but ok names the first rank that said so.
  /// `source`: which kernel answers, without its environment.
  MeasuringBackEnd::Check prepare(const CalibrationPoint& point, const std::string& source);
  /// The slowest rank's time for each sample, flags of any rank, the lowest clock. The error names
  /// the rank and how it ended.
  tl::expected<std::vector<Sample>, std::string> measure(std::size_t count);

 private:
  struct Rank {
    int process = -1, channel = -1;
    std::string unread;  // of its answers
  };
  struct Round {
    PointState state = PointState::ok;
    std::string reason;
    std::vector<Json> answers;  // of all ranks, when the state is ok
  };

  MeasuringBackEnd::Check start();
  std::string spawn(int rank);  // why not, "" when it runs
  Round ask(const std::function<std::string(int rank)>& request, std::chrono::milliseconds patience,
            std::size_t ranks);
  void end();  // all ranks, at once

  RankTeamOptions options_;
  std::vector<Rank> ranks_;
  MeasuringBackEnd::Check last_start_;
  int vain_starts_ = 0;  // in a row
};

/// What a rank's process does: loads the plug-in, then answers the lines of `in` on `out` until
/// there are no more. Ends with the process that started it.
void serve_rank(const std::string& plugin, int device, int in, int out);
