// A team of rank processes, seen from the process that asks them. Ranks are spawned, not forked: a
// fork would copy what CUDA has set up here.

#include "calibrate/measure/ranks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "sim/base/assert.hpp"
#include "sim/base/json_text.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int vain_starts_max = 3;
// For the others once a rank has said no (they may wait for it in a collective), and for a process
// to end by itself.
constexpr milliseconds grace{2000};
constexpr std::size_t answer_max = 1 << 20;

// "NAME=value" of this process, with `more` instead of what has the same name.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> out;
  for (char** e = environ; *e; ++e) {
    const std::string entry = *e;
    if (!more.contains(entry.substr(0, entry.find('=')))) out.push_back(entry);
  }
  for (const auto& [name, value] : more) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// The status of a process that ends within `patience`.
std::optional<int> wait_for(int process, milliseconds patience) {
  const auto until = Clock::now() + patience;
  for (;;) {
    int status = 0;
    const auto got = waitpid(process, &status, WNOHANG);
    if (got == process) return status;
    if ((got < 0 && errno != EINTR) || Clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

bool send_line(int channel, std::string line) {
  line += '\n';
  for (std::size_t at = 0; at < line.size();) {
    const auto sent = send(channel, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

std::string shortened(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

// {"state":"ok",...} with what the worker writes beside it; nothing when it is anything else.
std::optional<Json> answer_of(const std::string& line, PointState& state) {
  auto json = parse_json(line);
  if (!json || !json->is(Json::Kind::object)) return std::nullopt;
  const Json* word = json->find("state");
  if (!word || !word->is(Json::Kind::string) || !parse_point_state(word->text, state))
    return std::nullopt;
  return std::move(*json);
}

std::string text_of(const Json& answer, const char* key) {
  const Json* value = answer.find(key);
  return value ? value->text : "";
}

std::optional<std::vector<Sample>> samples_of(const Json& answer, std::size_t count) {
  const Json* list = answer.find("samples");
  if (!list || list->items.size() != count) return std::nullopt;
  std::vector<Sample> out;
  for (const Json& item : list->items) {
    if (item.items.size() != 4) return std::nullopt;
    for (const Json& number : item.items)
      if (!number.is(Json::Kind::number) || !std::isfinite(number.number) || number.number < 0)
        return std::nullopt;
    out.push_back({item.items[0].number, item.items[1].number, item.items[2].number != 0,
                   item.items[3].number != 0});
  }
  return out;
}

std::string prepare_request(const CalibrationPoint& p, const std::string& source) {
  std::string words, x;
  for (const auto& [id, value] : p.words)
    words += fmt::format("{}{}:{}", words.empty() ? "" : ",", json_text(id), json_text(value));
  for (std::size_t a = 0; a < KernelClasses::find(p.kernel_class)->axes.size(); ++a)
    x += fmt::format("{}{}", a ? "," : "", p.x[a]);
  return fmt::format(
      "{{\"do\":\"prepare\",\"kernel_class\":{},\"kernel_source\":{},\"words\":{{{}}},\"x\":[{}],"
      "\"pool_bytes\":{},\"launches\":{}}}",
      json_text(p.kernel_class), json_text(source), words, x, p.pool_bytes, p.launches);
}

// What one rank says outweighs what a better one does.
int badness(PointState state) {
  return state == PointState::ok            ? 0
         : state == PointState::unsupported ? 1
         : state == PointState::unverified  ? 2
                                            : 3;
}

}  // namespace

RankTeam::RankTeam(RankTeamOptions options) : options_(std::move(options)) {
  SIM_ASSERT(options_.ranks >= 1);
}
RankTeam::RankTeam(RankTeam&& other) noexcept
    : options_(std::move(other.options_)),
      ranks_(std::exchange(other.ranks_, {})),
      last_start_(std::move(other.last_start_)),
      vain_starts_(other.vain_starts_) {}
RankTeam::~RankTeam() {
  const auto until = Clock::now() + grace;
  for (const auto& rank : ranks_) send_line(rank.channel, "{\"do\":\"close\"}");
  for (auto& rank : ranks_)
    if (wait_for(rank.process, std::chrono::duration_cast<milliseconds>(until - Clock::now())))
      rank.process = -1;
  end();
}

std::string RankTeam::spawn(int rank) {
  auto words = options_.command;
  if (words.empty()) words = {"/proc/self/exe", "calibrate", "worker"};
  words.insert(words.end(), {"--plugin", options_.plugin, "--device", std::to_string(rank)});
  auto environment = environment_with(options_.environment);
  const auto argv = pointers(words), envp = pointers(environment);

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::strerror(errno);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  // Ctrl-C reaches the whole terminal: here it lets the point under way come to its end.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  sigaddset(&mask, SIGINT);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  Rank out;
  const int code =
      posix_spawn(&out.process, argv[0], &files, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    return fmt::format("{} cannot be started: {}", words[0], std::strerror(code));
  }
  out.channel = ends[0];
  ranks_.push_back(std::move(out));
  return "";
}

void RankTeam::end() {
  for (const auto& rank : ranks_)
    if (rank.process > 0) kill(rank.process, SIGKILL);
  for (const auto& rank : ranks_) {
    if (rank.channel >= 0) close(rank.channel);
    // A process that waits inside its driver may outlast a signal: it is left to its end.
    if (rank.process > 0) wait_for(rank.process, grace);
  }
  ranks_.clear();
}

// Asks the first `ranks` ranks and waits for all of them.
RankTeam::Round RankTeam::ask(const std::function<std::string(int rank)>& request,
                              milliseconds patience, std::size_t ranks) {
  Round out;
  std::vector<std::optional<Json>> answers(ranks);
  std::size_t waiting = ranks, said_by = 0;
  const auto lost = [&](std::size_t rank, const std::string& why) {
    // What a rank said itself tells more than that the others hang for want of it.
    if (out.state == PointState::ok) {
      out.state = PointState::failed;
      out.reason = fmt::format("rank {} {}", rank, why);
    }
    end();
    return out;
  };
  const auto ended = [&](std::size_t rank) {
    const auto status = wait_for(ranks_[rank].process, grace);
    if (!status) return lost(rank, "closed its answers and was killed");
    ranks_[rank].process = -1;
    return lost(rank, how_it_ended(*status));
  };

  for (std::size_t r = 0; r < ranks; ++r) {
    ranks_[r].unread.clear();  // it was asked nothing
    if (!send_line(ranks_[r].channel, request(static_cast<int>(r)))) return ended(r);
  }
  auto until = Clock::now() + patience;
  while (waiting > 0) {
    std::vector<pollfd> polled;
    std::vector<std::size_t> of;
    for (std::size_t r = 0; r < ranks; ++r)
      if (!answers[r]) polled.push_back({ranks_[r].channel, POLLIN, 0}), of.push_back(r);
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left.count() <= 0)
      return lost(of[0], fmt::format("did not answer within {} s and was killed",
                                     static_cast<double>(patience.count()) / 1e3));
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0) continue;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (!polled[i].revents) continue;
      const std::size_t r = of[i];
      auto& unread = ranks_[r].unread;
      char buffer[4096];
      const auto got = recv(ranks_[r].channel, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return ended(r);
      unread.append(buffer, static_cast<std::size_t>(got));
      const auto line_end = unread.find('\n');
      if (line_end == std::string::npos) {
        if (unread.size() > answer_max) return lost(r, "answered without an end and was killed");
        continue;
      }
      const auto line = unread.substr(0, line_end);
      unread.erase(0, line_end + 1);
      PointState state = PointState::ok;
      answers[r] = answer_of(line, state);
      if (!answers[r])
        return lost(
            r, fmt::format("answered '{}', which means nothing, and was killed", shortened(line)));
      --waiting;
      if (badness(state) > badness(out.state) ||
          (state == out.state && state != PointState::ok && r < said_by)) {
        said_by = r;
        out.state = state;
        out.reason = fmt::format("rank {}: {}", r, text_of(*answers[r], "why"));
      }
      if (state != PointState::ok) until = std::min(until, Clock::now() + grace);
    }
  }
  for (auto& answer : answers) out.answers.push_back(std::move(*answer));
  if (out.state == PointState::failed) end();  // what a failure leaves behind is not known
  return out;
}

MeasuringBackEnd::Check RankTeam::start() {
  for (int r = 0; r < options_.ranks; ++r)
    if (const auto why = spawn(r); !why.empty()) {
      end();
      return {PointState::failed, fmt::format("rank {}: {}", r, why)};
    }
  const auto step = [&](const std::function<std::string(int)>& request, int ranks) {
    return ask(request, options_.start_patience, static_cast<std::size_t>(ranks));
  };
  auto opened = step([](int) { return std::string("{\"do\":\"open\"}"); }, options_.ranks);
  if (opened.state == PointState::ok) {
    const auto made = step([](int) { return std::string("{\"do\":\"make_id\"}"); }, 1);
    // One rank needs no others: a plug-in without collectives may run in processes too.
    if (made.state == PointState::unsupported && options_.ranks == 1) return {};
    if (made.state != PointState::ok) {
      opened = made;
    } else {
      const auto id = json_text(text_of(made.answers[0], "text"));
      opened = step(
          [&](int rank) {
            return fmt::format("{{\"do\":\"join\",\"id\":{},\"rank\":{},\"ranks\":{}}}", id, rank,
                               options_.ranks);
          },
          options_.ranks);
    }
  }
  if (opened.state != PointState::ok) end();
  return {opened.state, opened.reason};
}

MeasuringBackEnd::Check RankTeam::prepare(const CalibrationPoint& point,
                                          const std::string& source) {
  if (ranks_.empty()) {
    if (vain_starts_ < vain_starts_max) last_start_ = start();
    vain_starts_ = last_start_.state == PointState::ok ? 0 : vain_starts_ + 1;
    if (last_start_.state != PointState::ok) return last_start_;
  }
  const auto request = prepare_request(point, source);
  const auto round = ask([&](int) { return request; }, options_.patience, ranks_.size());
  return {round.state, round.reason};
}

tl::expected<std::vector<Sample>, std::string> RankTeam::measure(std::size_t count) {
  if (ranks_.empty()) return tl::unexpected(std::string("no point was prepared"));
  const auto round =
      ask([&](int) { return fmt::format("{{\"do\":\"measure\",\"count\":{}}}", count); },
          options_.patience, ranks_.size());
  if (round.state != PointState::ok) return tl::unexpected(round.reason);
  std::vector<Sample> out(count);
  for (std::size_t r = 0; r < round.answers.size(); ++r) {
    const auto samples = samples_of(round.answers[r], count);
    if (!samples) {
      end();
      return tl::unexpected(fmt::format("rank {} answered other than {} samples", r, count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Sample& s = (*samples)[i];
      out[i].us = std::max(out[i].us, s.us);
      out[i].sm_clock_mhz = r == 0 ? s.sm_clock_mhz : std::min(out[i].sm_clock_mhz, s.sm_clock_mhz);
      out[i].throttled |= s.throttled;
      out[i].stolen |= s.stolen;
    }
  }
  return out;
}
