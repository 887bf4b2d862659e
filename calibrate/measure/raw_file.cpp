#include "calibrate/measure/raw_file.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "sim/base/json.hpp"
#include "sim/base/json_text.hpp"

namespace {

// As written: tenths of a nanosecond, which events do not resolve. Samples are rounded before they
// are judged, so that a replay judges the same numbers.
double written(double us) { return std::round(us * 1e4) / 1e4; }

template <class List, class Text>
std::string array(const List& list, Text text) {
  std::string out = "[";
  for (const auto& item : list) out += (out.size() > 1 ? "," : "") + text(item);
  return out + "]";
}

std::string flags(const std::vector<Sample>& samples, bool Sample::*flag) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (samples[i].*flag) indices.push_back(i);
  return array(indices, [](std::size_t i) { return std::to_string(i); });
}

// One line as JSON, with what is wrong put where it stands.
class LineReader {
 public:
  LineReader(std::string name, std::string_view line, int number, Diagnostics& errors)
      : errors_(errors) {
    source_ = std::make_shared<Source>();
    source_->name = std::move(name);
    source_->text = line;
    source_->first_line = number;
    auto parsed = parse_json(source_->text);
    if (parsed)
      json_ = std::move(*parsed);
    else
      fail(parsed.error().at, parsed.error().message);
    if (parsed && !json_.is(Json::Kind::object)) fail(0, "a JSON object is wanted");
  }
  bool good() const { return good_; }
  std::string text(const char* key) {
    const Json* value = take(key, Json::Kind::string, "text");
    return value ? value->text : "";
  }
  double number(const char* key) {
    const Json* value = take(key, Json::Kind::number, "a number");
    if (!value) return 0;
    if (!(std::isfinite(value->number) && value->number >= 0))
      fail(value->at, fmt::format("'{}' must be a number from 0 up", key));
    return value->number;
  }
  int count(const char* key) {
    const double value = number(key);
    if (good_ && (value != std::floor(value) || value < 1 || value > 1e9))
      fail(json_.find(key)->at, fmt::format("'{}' must be a whole number from 1 up", key));
    return good_ ? static_cast<int>(value) : 1;
  }
  std::vector<double> numbers(const char* key) {
    std::vector<double> out;
    const Json* value = take(key, Json::Kind::array, "a list of numbers");
    for (std::size_t i = 0; value && i < value->items.size(); ++i) {
      const Json& item = value->items[i];
      if (!item.is(Json::Kind::number) || !std::isfinite(item.number) || item.number < 0)
        fail(item.at, fmt::format("'{}' must hold numbers from 0 up", key));
      out.push_back(item.number);
    }
    return out;
  }
  std::map<std::string, std::string> words(const char* key) {
    std::map<std::string, std::string> out;
    if (const Json* value = take(key, Json::Kind::object, "an object of words"))
      for (const auto& member : value->members) {
        if (!member.value.is(Json::Kind::string))
          fail(member.value.at, fmt::format("'{}' must be text", member.key));
        out[member.key] = member.value.text;
      }
    return out;
  }
  void wrong(const char* key, std::string message, std::string hint = {}) {
    const Json* value = json_.find(key);
    fail(value ? value->at : 0, std::move(message), std::move(hint));
  }

 private:
  const Json* take(const char* key, Json::Kind kind, const char* what) {
    if (!good_) return nullptr;
    const Json* value = json_.find(key);
    if (value && value->is(kind)) return value;
    fail(value ? value->at : 0,
         value ? fmt::format("'{}' must be {}", key, what) : fmt::format("'{}' is missing", key));
    return nullptr;
  }
  void fail(std::size_t at, std::string message, std::string hint = {}) {
    good_ = false;
    errors_.error({source_, source_->first_line, static_cast<int>(at) + 1}, std::move(message),
                  std::move(hint));
  }

  std::shared_ptr<Source> source_;
  Json json_;
  Diagnostics& errors_;
  bool good_ = true;
};

RawHeader header_of(LineReader& in) {
  RawHeader h;
  if (in.good() && in.text("kind") != "ceiling calibrate")
    in.wrong("kind", "this is no raw file of ceiling calibrate",
             "ceiling calibrate run -o FILE writes one");
  if (in.good() && in.number("schema") != 1)
    in.wrong("schema", "another version of the format", "this ceiling reads 1");
  h.back_end = in.text("back_end");
  h.device = {in.text("gpu"),
              in.text("device"),
              in.text("driver"),
              in.number("sm_clock_mhz"),
              in.number("memory_clock_mhz"),
              in.text("libraries")};
  h.version = in.text("version");
  h.command = in.text("command");
  h.model = in.text("model");
  h.profile = in.text("profile");
  h.plan = in.text("plan");
  h.tensor_parallel = in.count("tensor_parallel");
  return h;
}

RawPoint point_of(LineReader& in, int line) {
  RawPoint p;
  p.line = line;
  p.key = in.text("point");
  p.kernel_class = in.text("class");
  p.words = in.words("words");
  p.kernel_source = in.text("kernel_source");
  const auto state = in.text("state");
  if (in.good() && !parse_point_state(state, p.state))
    in.wrong("state", fmt::format("there is no state '{}'", state));
  p.reason = in.text("reason");
  p.launches = in.count("launches");
  const auto x = in.numbers("x");
  const KernelClass* kind = KernelClasses::find(p.kernel_class);
  if (in.good() && !kind)
    in.wrong("class", fmt::format("there is no kernel class '{}'", p.kernel_class),
             suggestion(p.kernel_class, KernelClasses::names()));
  if (in.good() && x.size() != kind->axes.size())
    in.wrong("x", fmt::format("{} sizes of {} are wanted", kind->axes.size(), p.kernel_class));
  if (!in.good()) return p;
  std::copy(x.begin(), x.end(), p.x.begin());
  const auto us = in.numbers("samples_us"), clocks = in.numbers("sm_clock_mhz");
  if (in.good() && clocks.size() != us.size())
    in.wrong("sm_clock_mhz", "as many clocks as samples are wanted");
  if (in.good() && fittable(p.state) && us.empty())
    in.wrong("samples_us", fmt::format("a point that is {} has samples", state));
  for (std::size_t i = 0; in.good() && i < us.size(); ++i) {
    if (!(us[i] > 0)) in.wrong("samples_us", "no kernel takes no time");
    p.samples.push_back({us[i], clocks[i], false, false});
  }
  for (const auto& [key, flag] :
       {std::pair("throttled", &Sample::throttled), std::pair("stolen", &Sample::stolen)})
    for (const double index : in.numbers(key)) {
      if (index != std::floor(index) || index >= static_cast<double>(p.samples.size())) {
        if (in.good()) in.wrong(key, fmt::format("there is no sample {}", index));
        continue;
      }
      p.samples[static_cast<std::size_t>(index)].*flag = true;
    }
  CalibrationPoint same;
  same.kernel_class = p.kernel_class;
  same.source = p.kernel_source;
  same.words = p.words;
  same.x = p.x;
  if (in.good() && same.key() != p.key)
    in.wrong("point", fmt::format("the sizes of this line are those of '{}'", same.key()));
  return p;
}

}  // namespace

const RawPoint* RawFile::find(const std::string& key) const {
  const auto it =
      std::find_if(points.begin(), points.end(), [&](const RawPoint& p) { return p.key == key; });
  return it == points.end() ? nullptr : &*it;
}

std::string to_line(const RawHeader& h) {
  return fmt::format(
      "{{\"schema\":1,\"kind\":\"ceiling calibrate\",\"back_end\":{},\"gpu\":{},\"device\":{},"
      "\"driver\":{},\"sm_clock_mhz\":{},\"memory_clock_mhz\":{},\"libraries\":{},\"version\":{},"
      "\"command\":{},\"model\":{},\"tensor_parallel\":{},\"profile\":{},\"plan\":{}}}\n",
      json_text(h.back_end), json_text(h.device.gpu), json_text(h.device.device),
      json_text(h.device.driver), h.device.sm_clock_mhz, h.device.memory_clock_mhz,
      json_text(h.device.libraries), json_text(h.version), json_text(h.command), json_text(h.model),
      h.tensor_parallel, json_text(h.profile), json_text(h.plan));
}

std::string to_line(const RawPoint& p) {
  const KernelClass& kind = *KernelClasses::find(p.kernel_class);
  std::string words;
  for (const auto& [id, value] : p.words)
    words += fmt::format("{}{}:{}", words.empty() ? "" : ",", json_text(id), json_text(value));
  const std::vector<double> x(p.x.begin(),
                              p.x.begin() + static_cast<std::ptrdiff_t>(kind.axes.size()));
  const auto plain = [](double v) { return fmt::format("{}", v); };
  return fmt::format(
      "{{\"point\":{},\"class\":{},\"words\":{{{}}},\"x\":{},\"kernel_source\":{},\"state\":{},"
      "\"reason\":{},\"launches\":{},\"samples_us\":{},\"sm_clock_mhz\":{},\"throttled\":{},"
      "\"stolen\":{}}}\n",
      json_text(p.key), json_text(p.kernel_class), words, array(x, plain),
      json_text(p.kernel_source), json_text(name(p.state)), json_text(p.reason), p.launches,
      array(p.samples, [&](const Sample& s) { return plain(s.us); }),
      array(p.samples, [&](const Sample& s) { return plain(s.sm_clock_mhz); }),
      flags(p.samples, &Sample::throttled), flags(p.samples, &Sample::stolen));
}

Expected<RawFile> read_raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    Diagnostics errors;
    errors.error({}, fmt::format("'{}' cannot be read", path),
                 "ceiling calibrate run -o FILE writes one");
    return tl::unexpected(errors);
  }
  return parse_raw(path, std::string(std::istreambuf_iterator<char>(in), {}));
}

Expected<RawFile> parse_raw(const std::string& path, std::string_view text) {
  RawFile out;
  out.path = path;
  Diagnostics errors;
  std::map<std::string, std::size_t> index;
  int number = 0;
  for (std::size_t at = 0; at < text.size() && errors.size() < 20;) {
    const auto end = text.find('\n', at);
    if (end == std::string_view::npos) {
      out.cut_off = true;
      break;
    }
    LineReader in(path, text.substr(at, end - at), ++number, errors);
    at = out.whole_bytes = end + 1;
    if (number == 1) {
      out.header = header_of(in);
      if (!in.good()) break;  // of another kind altogether: one message is enough
      continue;
    }
    auto point = point_of(in, number);
    const auto [it, fresh] = index.emplace(point.key, out.points.size());
    if (fresh)
      out.points.push_back(std::move(point));
    else
      out.points[it->second] = std::move(point);
  }
  if (number == 0)
    errors.error({}, fmt::format("'{}' has no whole line", path),
                 "remove it: nothing was measured");
  if (!errors.empty()) return tl::unexpected(errors);
  return out;
}

std::vector<std::string> device_changes(const DeviceFacts& then, const DeviceFacts& now) {
  std::vector<std::string> out;
  const auto check = [&](const char* what, const auto& was, const auto& is) {
    if (was != is) out.push_back(fmt::format("{} is '{}', was '{}'", what, is, was));
  };
  check("the GPU", then.gpu, now.gpu);
  check("the device", then.device, now.device);
  check("the driver", then.driver, now.driver);
  check("the SM clock in MHz", then.sm_clock_mhz, now.sm_clock_mhz);
  check("the memory clock in MHz", then.memory_clock_mhz, now.memory_clock_mhz);
  check("the libraries", then.libraries, now.libraries);
  return out;
}

RunCounts run_plan(const CalibrationPlan& plan, MeasuringBackEnd& back_end,
                   const std::function<bool(const std::string&)>& done,
                   const std::function<bool(std::size_t, const std::string&)>& go_on,
                   const std::function<void(std::string_view)>& write) {
  RunCounts counts;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const CalibrationPoint& point = plan.points[i];
    RawPoint out;
    out.key = point.key();
    if (done(out.key)) {
      ++counts.already;
      continue;
    }
    if (!go_on(i, out.key)) {
      for (; i < plan.points.size(); ++i) counts.left += !done(plan.points[i].key());
      break;
    }
    out.kernel_class = point.kernel_class;
    out.words = point.words;
    out.x = point.x;
    out.launches = point.launches;
    out.kernel_source = point.source;
    const auto check = back_end.prepare(point);
    out.state = check.state;
    out.reason = check.reason;
    std::vector<double> us;
    double measured_s = 0;
    Stop stop = check.state == PointState::ok ? Stop::go_on : Stop::settled;
    while (stop == Stop::go_on) {
      auto block = back_end.measure(samples_min);
      if (block && block->empty()) break;
      if (!block) {
        out.state = PointState::failed;
        out.reason = block.error();
        break;
      }
      for (auto& sample : *block) {
        sample.us = written(sample.us);
        us.push_back(sample.us);
        measured_s += sample.us * 1e-6 * point.launches;
        out.samples.push_back(sample);
      }
      stop = stop_rule(us, measured_s, point.kernel_class == "nccl");
    }
    if (out.state == PointState::ok && out.samples.empty()) {
      out.state = PointState::failed;
      out.reason = "the back end gave no sample";
    }
    if (out.state == PointState::ok) out.state = judge(out.samples, stop == Stop::settled).state;
    ++counts.states[out.state];
    if (out.state != PointState::ok) {
      const auto what =
          fmt::format("{}{}{}", name(out.state), out.reason.empty() ? "" : ", ", out.reason);
      auto at = std::find_if(counts.problems.begin(), counts.problems.end(),
                             [&](const auto& problem) { return problem.first == what; });
      if (at == counts.problems.end())
        at = counts.problems.insert(at, {what, std::vector<std::string>()});
      at->second.push_back(out.key);
    }
    write(to_line(out));
  }
  return counts;
}
