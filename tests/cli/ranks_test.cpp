// Teams of rank processes, with a plug-in that fails as it is told.

#include <signal.h>

#include <chrono>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

#include "calibrate/measure/probe.hpp"
#include "calibrate/measure/ranks.hpp"
#include "tests/support/process.hpp"

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// A folder in which each rank leaves its process id.
class Ranks {
 public:
  RankTeamOptions options(int ranks) const {
    RankTeamOptions o;
    o.plugin = process::fake("plugin");
    o.ranks = ranks;
    o.environment["FAKE_FOLDER"] = folder_.path().string();
    o.command = {process::binary().string(), "calibrate", "worker"};
    return o;
  }
  std::set<int> ever() const {
    std::set<int> out;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      out.insert(std::stoi(entry.path().filename().string()));
    return out;
  }
  std::set<int> running() const {
    std::set<int> out;
    for (const int id : ever()) {
      std::ifstream in("/proc/" + std::to_string(id) + "/stat");
      std::string number, name, state;
      in >> number >> name >> state;
      if (in && state != "Z") out.insert(id);
    }
    return out;
  }

 private:
  process::TemporaryFolder folder_;
};

CalibrationPoint point(const std::string& act = "", const std::string& rank = "all") {
  CalibrationPoint p;
  p.kernel_class = "nccl";
  p.words = {{"act", act}, {"rank", rank}};
  p.x[0] = 4096;
  return p;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

void check_works(RankTeam& team) {
  const auto check = team.prepare(point(), "nccl");
  INFO(check.reason);
  REQUIRE(check.state == PointState::ok);
  CHECK(team.measure(3).value().size() == 3);
}

// Prepares and measures; the reason of the failure.
std::string failure(RankTeam& team, const CalibrationPoint& p) {
  const auto check = team.prepare(p, "nccl");
  if (check.state != PointState::ok) {
    CHECK(check.state == PointState::failed);
    return check.reason;
  }
  const auto samples = team.measure(4);
  return samples ? "" : samples.error();
}

}  // namespace

TEST_CASE("a sample lasts as long as on its slowest rank") {
  const Ranks ranks;
  for (const int n : {1, 2, 4}) {
    RankTeam team(ranks.options(n));
    REQUIRE(team.prepare(point("prepare prints", "0"), "nccl").state == PointState::ok);
    for (const std::size_t count : {5, 1}) {
      const auto samples = team.measure(count);
      REQUIRE(samples);
      REQUIRE(samples->size() == count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto& s = (*samples)[i];
        CHECK(s.us == 4096 + static_cast<double>(i) + 100.25);  // 4096: the point's size
        CHECK(s.sm_clock_mhz == 1000);                          // rank r has 1000 + r
        CHECK(s.throttled == (i < std::size_t(n)));             // on rank i
        CHECK(s.stolen == (i >= 1 && i < std::size_t(n) + 1));  // on rank i - 1
      }
    }
  }
  CHECK(ranks.ever().size() == 7);
  CHECK(ranks.running().empty());
  CHECK_FALSE(has_children());
}

TEST_CASE("a rank that dies, ends, hangs or lies fails its point by name, and the next one works") {
  const Ranks ranks;
  auto options = ranks.options(3);
  options.patience = milliseconds(500);
  {
    RankTeam team(options);
    const std::pair<std::string, std::string> cases[] = {
        {"prepare dies", "rank 1 was ended by signal 9 (Killed)"},
        {"measure dies", "rank 1 was ended by signal 9 (Killed)"},
        {"measure ends", "rank 1 ended with exit code 7"},
        {"measure hangs", "rank 1 did not answer within 0.5 s and was killed"},
        {"prepare fails", "rank 1: out of memory"},
        {"measure fails", "rank 1: out of memory"},
        {"measure is short", "rank 1 answered other than 4 samples"},
        {"measure is negative", "rank 1 answered other than 4 samples"}};
    std::size_t before = 0;
    for (const auto& [act, reason] : cases) {
      INFO(act);
      CHECK(failure(team, point(act, "1")) == reason);
      CHECK(ranks.running().empty());
      CHECK_FALSE(has_children());
      CHECK_FALSE(team.measure(1));  // nothing is prepared
      CHECK(ranks.ever().size() == before + 3);
      before += 3;
    }
    check_works(team);
    CHECK(ranks.running().size() == 3);
  }
  CHECK(ranks.running().empty());
  CHECK_FALSE(has_children());
}

TEST_CASE("a kernel that a rank does not have or computes wrongly costs no rank its life") {
  const Ranks ranks;
  RankTeam team(ranks.options(2));
  const auto unsupported = team.prepare(point("prepare is unsupported"), "nccl");
  CHECK(unsupported.state == PointState::unsupported);
  CHECK(unsupported.reason == "rank 0: no such kernel");
  const auto unverified = team.prepare(point("prepare is unverified", "1"), "nccl");
  CHECK(unverified.state == PointState::unverified);
  CHECK(unverified.reason == "rank 1: off by one");
  check_works(team);
  CHECK(ranks.ever().size() == 2);
}

TEST_CASE("what a rank says itself counts, not that the others wait for it in vain") {
  const Ranks ranks;
  auto options = ranks.options(2);
  options.patience = milliseconds(500);
  RankTeam team(options);
  // rank 0 waits for one that never comes
  auto p = point("measure hangs", "0");
  REQUIRE(team.prepare(p, "nccl").state == PointState::ok);
  CHECK(team.measure(1).error() == "rank 0 did not answer within 0.5 s and was killed");
  // rank 1 says why
  options.environment["FAKE_JOIN"] = "1";
  RankTeam refusing(options);
  for (int i = 0; i < 5; ++i) {
    const auto check = refusing.prepare(point(), "nccl");
    CHECK(check.state == PointState::unsupported);
    CHECK(check.reason == "rank 1: no peer acc??s");
    CHECK_FALSE(has_children());
  }
  // three teams were started, the other two prepares did not try again
  CHECK(ranks.ever().size() == 2 + 3 * 2);
}

TEST_CASE("a program that is no rank is told from one that cannot start") {
  const Ranks ranks;
  auto options = ranks.options(1);
  const auto reason = [&] { return RankTeam(options).prepare(point(), "nccl").reason; };
  options.command = {"/bin/sh", "-c", "read x; echo hello; read x", "rank"};
  CHECK(reason() == "rank 0 answered 'hello', which means nothing, and was killed");
  options.command = {"/bin/sh", "-c", "read x; echo '{\"state\":\"fine\"}'; read x", "rank"};
  CHECK(reason().find("which means nothing") != std::string::npos);
  options.command = {"/no/such/program"};
  CHECK(reason() == "rank 0: /no/such/program cannot be started: No such file or directory");
  options.command = {process::binary().string(), "calibrate", "worker"};
  options.plugin = "/no/such/plugin.so";
  CHECK(reason().find("rank 0: /no/such/plugin.so: cannot open shared object file") == 0);
  options.plugin = "libc.so.6";
  CHECK(reason() == "rank 0: libc.so.6 is no plug-in of ceiling");
  CHECK_FALSE(has_children());
}

TEST_CASE("the plug-in of collectives answers in words where there is no GPU") {
  const auto plugin = process::binary().parent_path() / "plugins" / "libceiling_comm.so";
  if (!fs::exists(plugin) || no_gpu_reason("libcuda.so.1").empty()) {
    WARN("it was not built, or there is a GPU");
    return;
  }
  auto options = Ranks().options(2);
  options.plugin = plugin.string();
  const auto check = RankTeam(options).prepare(point(), "nccl");
  CHECK(check.state == PointState::failed);
  INFO(check.reason);
  CHECK(check.reason.find("rank 0: counting GPUs: ") == 0);
}

TEST_CASE("Ctrl-C lets the point under way come to its end") {
  const Ranks ranks;
  RankTeam team(ranks.options(2));
  check_works(team);
  for (const int id : ranks.running()) kill(id, SIGINT);
  check_works(team);
  CHECK(ranks.ever().size() == 2);
}

TEST_CASE("no rank outlives the process that started it, not even one that hangs") {
  const Ranks ranks;
  const int parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    RankTeam team(ranks.options(2));
    team.prepare(point("measure hangs", "1"), "nccl");
    (void)team.measure(1);
    _exit(1);
  }
  const auto patiently = [](const auto& condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
    return condition();
  };
  CHECK(patiently([&] { return ranks.running().size() == 2; }));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK(patiently([&] { return ranks.running().empty(); }));
}

TEST_CASE("the word for ranks is not shown") {
  CHECK(process::run({"calibrate", "--help"}).out.find("worker") == std::string::npos);
  CHECK(process::run({"calibrate", "wrker"}).err.find("worker") == std::string::npos);
}
