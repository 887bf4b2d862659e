// A rank, seen from inside its process: lines of JSON in, calls of its plug-in, lines out.

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "calibrate/measure/plugin.hpp"
#include "calibrate/measure/ranks.hpp"
#include "sim/base/json_text.hpp"

namespace {

using Check = MeasuringBackEnd::Check;

std::string answer(const Check& check, const std::string& more = "") {
  return fmt::format("{{\"state\":\"{}\",\"why\":{}{}}}", name(check.state),
                     json_text(check.reason), more);
}
std::string failed(const std::string& why) { return answer({PointState::failed, why}); }

std::string text(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value ? value->text : "";
}
double number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value ? value->number : 0;
}

class Worker {
 public:
  Worker(std::string path, int device) : path_(std::move(path)), device_(device) {}

  std::string reply_to(const Json& request) {
    const auto what = text(request, "do");
    if (what == "open") return open();
    if (!plugin_) return failed("no plug-in was opened");
    if (what == "make_id") {
      const auto id = plugin_->make_id();
      return id ? answer({}, fmt::format(",\"text\":{}", json_text(*id))) : answer(id.error());
    }
    if (what == "join")
      return answer(plugin_->join(text(request, "id"), static_cast<int>(number(request, "rank")),
                                  static_cast<int>(number(request, "ranks"))));
    if (what == "prepare") return prepare(request);
    if (what == "measure") return measure(static_cast<std::size_t>(number(request, "count")));
    return failed("a rank knows no " + what);
  }

 private:
  std::string open() {
    auto plugin = Plugin::load(path_);
    if (!plugin) return failed(plugin.error());
    const auto check = plugin->open(device_);
    if (check.state == PointState::ok) plugin_.emplace(std::move(*plugin));
    return answer(check);
  }

  std::string prepare(const Json& request) {
    CalibrationPoint point;
    point.kernel_class = text(request, "kernel_class");
    if (!KernelClasses::find(point.kernel_class))
      return failed("there is no kernel class " + point.kernel_class);
    if (const Json* all = request.find("words"))
      for (const auto& member : all->members) point.words[member.key] = member.value.text;
    if (const Json* all = request.find("x"))
      for (std::size_t i = 0; i < std::min(point.x.size(), all->items.size()); ++i)
        point.x[i] = all->items[i].number;
    point.pool_bytes = number(request, "pool_bytes");
    point.launches = static_cast<int>(number(request, "launches"));
    return answer(plugin_->prepare(point, text(request, "kernel_source")));
  }

  std::string measure(std::size_t count) {
    const auto samples = plugin_->measure(count);
    if (!samples) return failed(samples.error());
    std::string list;
    for (const Sample& s : *samples)
      list += fmt::format("{}[{},{},{:d},{:d}]", list.empty() ? "" : ",", s.us, s.sm_clock_mhz,
                          s.throttled, s.stolen);
    return answer({}, fmt::format(",\"samples\":[{}]", list));
  }

  std::string path_;
  int device_;
  std::optional<Plugin> plugin_;  // once it has taken the GPU
};

}  // namespace

void serve_rank(const std::string& plugin, int device, int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Libraries write to stdout (NCCL_DEBUG does): only answers may go where these go.
  const int answers = fcntl(out, F_DUPFD_CLOEXEC, 3);
  if (out == STDOUT_FILENO) dup2(STDERR_FILENO, STDOUT_FILENO);

  Worker worker(plugin, device);
  std::string unread;
  char buffer[4096];
  for (;;) {
    const auto line_end = unread.find('\n');
    if (line_end == std::string::npos) {
      const auto got = read(in, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;  // whoever asked is gone
      unread.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    const auto request = parse_json(unread.substr(0, line_end));
    unread.erase(0, line_end + 1);
    if (request && text(*request, "do") == "close") break;
    const auto line = (request ? worker.reply_to(*request) : failed("no request")) + "\n";
    // whole: a pipe or socket blocks until it has room; it fails when nobody reads any more
    if (write(answers, line.data(), line.size()) != static_cast<ssize_t>(line.size())) break;
  }
  close(answers);
}
