// A rank, seen from inside its process: lines of JSON in, calls of its plug-in, lines out.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include <fmt/format.h>

#include "calibrate/cuda/plugin.hpp"
#include "calibrate/measure/ranks.hpp"
#include "sim/base/json_text.hpp"

namespace {

// Room for what a plug-in says; what is no ASCII would be no JSON when it is cut.
struct Said {
  std::array<char, 4096> text{};
  PluginText room() { return {text.data(), text.size()}; }
  std::string str() const {
    std::string out = text.data();
    for (char& c : out)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    return out;
  }
};

std::string answer(PointState state, const std::string& why, const std::string& more = "") {
  return fmt::format("{{\"state\":\"{}\",\"why\":{}{}}}", name(state), json_text(why), more);
}
std::string failed(const std::string& why) { return answer(PointState::failed, why); }
std::string answer(int code, const Said& why) {
  return answer(code == plugin_ok            ? PointState::ok
                : code == plugin_unverified  ? PointState::unverified
                : code == plugin_unsupported ? PointState::unsupported
                                             : PointState::failed,
                why.str());
}

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
  ~Worker() {
    if (api_) api_->close();
  }
  Worker(const Worker&) = delete;

  std::string reply_to(const Json& request) {
    const auto what = text(request, "do");
    if (what == "open") return open();
    if (!api_) return failed("no plug-in was opened");
    Said why;
    if (what == "make_id") {
      if (!api_->make_id) return answer(PointState::unsupported, "the plug-in knows no ranks");
      Said id;
      if (const int code = api_->make_id(id.room(), why.room()); code != plugin_ok)
        return answer(code, why);
      return answer(PointState::ok, "", fmt::format(",\"text\":{}", json_text(id.str())));
    }
    if (what == "join")
      return answer(
          api_->join(text(request, "id").c_str(), static_cast<int>(number(request, "rank")),
                     static_cast<int>(number(request, "ranks")), why.room()),
          why);
    if (what == "prepare") return prepare(request);
    if (what == "measure") return measure(static_cast<std::size_t>(number(request, "count")));
    return failed("a rank knows no " + what);
  }

 private:
  std::string open() {
    void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return failed(dlerror());
    const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, plugin_entry));
    if (!entry || entry()->abi != plugin_abi)
      return failed(path_ + " is no plug-in of this ceiling");
    Said why;
    const int code = entry()->open(device_, why.room());
    if (code == plugin_ok) api_ = entry();
    return answer(code, why);
  }

  std::string prepare(const Json& request) {
    std::vector<const char*> words;
    if (const Json* all = request.find("words"))
      for (const auto& member : all->members)
        words.insert(words.end(), {member.key.c_str(), member.value.text.c_str()});
    words.push_back(nullptr);
    std::vector<double> x;
    if (const Json* all = request.find("x"))
      for (const auto& item : all->items) x.push_back(item.number);
    const auto kernel_class = text(request, "kernel_class"),
               kernel_source = text(request, "kernel_source");
    const PluginPoint point{kernel_class.c_str(),
                            kernel_source.c_str(),
                            words.data(),
                            x.data(),
                            x.size(),
                            number(request, "pool_bytes"),
                            static_cast<int>(number(request, "launches"))};
    Said why;
    return answer(api_->prepare(&point, why.room()), why);
  }

  std::string measure(std::size_t count) {
    std::vector<PluginSample> samples(count);
    Said why;
    const int got = api_->measure(samples.data(), static_cast<int>(count), why.room());
    if (got < 0) return failed(why.str());
    std::string list;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i)
      list += fmt::format("{}[{},{},{},{}]", i ? "," : "", samples[i].us, samples[i].sm_clock_mhz,
                          samples[i].throttled, samples[i].stolen);
    return answer(PointState::ok, "", fmt::format(",\"samples\":[{}]", list));
  }

  std::string path_;
  int device_;
  const PluginApi* api_ = nullptr;  // once it has taken the GPU
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
