// Kernel times and idle times of an engine's own kernels, from a profiler's trace. Leaves out:
// shapes, which a trace does not tell; what a collective waited for its slowest rank, which its
// duration includes.

#include "calibrate/import/kernel_trace.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "calibrate/import/nsys_trace.hpp"
#include "sim/base/json.hpp"
#include "sim/base/json_text.hpp"
#include "sim/base/statistics.hpp"
#include "sim/base/table_text.hpp"
#include "sim/report/table.hpp"

namespace {

constexpr std::string_view space = " \t\r\n";

// Where the value that opens at `at` closes (the byte behind it); npos when it does not.
std::size_t end_of_object(std::string_view text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::optional<double> number(const Json* value) {
  return value && value->is(Json::Kind::number) && std::isfinite(value->number)
             ? std::optional(value->number)
             : std::nullopt;
}

/// Takes the events of one file in.
class Reader {
 public:
  Reader(const std::string& path, std::string_view text, KernelTrace& trace, Diagnostics& errors)
      : path_(path), text_(text), trace_(trace), errors_(errors), first_gpu_(trace.gpus) {}

  void read() {
    auto at = text_.find("\"traceEvents\"");
    if (at != std::string_view::npos) at = text_.find('[', at);
    if (at == std::string_view::npos)
      return fail(0, "there are no \"traceEvents\": this is no trace of torch.profiler",
                  "export_chrome_trace() writes one");
    const std::size_t work_before = trace_.work.size();
    for (++at;;) {
      at = text_.find_first_not_of(space, at);
      if (at == std::string_view::npos) return fail(text_.size(), "the trace ends in its events");
      if (text_[at] == ']') break;
      if (text_[at] == ',') {
        ++at;
        continue;
      }
      if (text_[at] != '{') return fail(at, "an event must be an object");
      const auto end = end_of_object(text_, at);
      if (end == std::string_view::npos)
        return fail(at, "the trace ends within this event", "was the profiler stopped?");
      const auto event = parse_json(text_.substr(at, end - at));
      if (!event) return fail(at + event.error().at, event.error().message);
      take(*event);
      at = end;
    }
    if (trace_.work.size() == work_before)
      fail(0, "no kernel ran on a GPU in this trace",
           "profile with ProfilerActivity.CUDA, while the server works");
  }

 private:
  void take(const Json& event) {
    const Json* category = event.find("cat");
    if (!category || !category->is(Json::Kind::string)) return;
    const std::string& kind = category->text;
    const bool work = kind == "kernel" || kind == "gpu_memcpy" || kind == "gpu_memset";
    if (!work && kind != "cuda_runtime" && kind != "cuda_driver") return;
    const Json* args = event.find("args");
    const auto arg = [&](std::string_view key) {
      return args ? number(args->find(key)) : std::nullopt;
    };
    const auto start = number(event.find("ts")), us = number(event.find("dur"));
    const auto correlation = arg("correlation");
    // Numbers of two files mean different calls.
    const std::int64_t call =
        correlation ? static_cast<std::int64_t>(*correlation) + first_gpu_ * (std::int64_t{1} << 48)
                    : -1;
    if (!work) {
      if (start && us && call >= 0) trace_.calls.push_back({call, *start, *us});
      return;
    }
    const Json* name = event.find("name");
    if (!start || !us || *us < 0 || !name || !name->is(Json::Kind::string)) {
      ++trace_.malformed;
      return;
    }
    const int device = static_cast<int>(arg("device").value_or(0));
    const auto [gpu, added] = gpus_.try_emplace(device, trace_.gpus);
    trace_.gpus += added;
    trace_.work.push_back({name->text, gpu->second, *start, *us, call});
  }

  void fail(std::size_t at, const std::string& message, const std::string& hint = {}) {
    const auto [line, column] = line_and_column(text_, at);
    errors_.error(table_place(path_, at == 0 ? 0 : line, at == 0 ? 0 : column, {}), message, hint);
  }

  const std::string& path_;
  std::string_view text_;
  KernelTrace& trace_;
  Diagnostics& errors_;
  int first_gpu_;
  std::map<int, int> gpus_;  // the file's numbers to ours
};

KernelTimes times_of(std::string family, std::string name, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  KernelTimes out{std::move(family), std::move(name), us.size()};
  for (const double t : us) out.total_us += t;
  out.median_us = percentile(us, 50);
  out.p10_us = percentile(us, 10);
  out.p90_us = percentile(us, 90);
  return out;
}

std::vector<KernelTimes> by_total(std::vector<KernelTimes> times) {
  std::stable_sort(times.begin(), times.end(),
                   [](const auto& a, const auto& b) { return a.total_us > b.total_us; });
  return times;
}

// The work of one GPU by start.
TracedGpu follow(const std::vector<const TracedWork*>& work,
                 const std::map<std::int64_t, const TracedCall*>& calls) {
  TracedGpu out;
  const TracedWork* last = nullptr;  // of those that ended so far, the last
  for (const TracedWork* w : work) {
    const double begin = last ? last->end_us() : w->start_us;
    if (const double idle = w->start_us - begin; idle > 0) {
      const auto call = calls.find(w->call);
      if (w->call >= 0 && w->call == last->call) {
        out.idle.graph_us += idle;
      } else if (call == calls.end()) {
        out.idle.unknown_us += idle;
      } else {
        // Until the call was issued the GPU waited for the host, from then on for the launch.
        const double late = std::clamp(call->second->start_us - begin, 0.0, idle);
        out.idle.host_us += late;
        out.idle.queued_us += idle - late;
      }
    }
    out.busy_us += std::max(0.0, w->end_us() - std::max(begin, w->start_us));
    if (!last || w->end_us() > last->end_us()) last = w;
  }
  if (last) out.span_us = last->end_us() - work.front()->start_us;
  return out;
}

// "void cutlass::device_kernel<...>(...)" as "cutlass::device_kernel<...": what fits a line.
std::string short_name(std::string name) {
  if (name.starts_with("void ")) name.erase(0, 5);
  constexpr std::size_t width = 56;
  return name.size() > width ? name.substr(0, width - 3) + "..." : name;
}

}  // namespace

std::string_view kernel_family(std::string_view name) {
  std::string low(name);
  for (char& c : low) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  struct Rule {
    std::string_view part, family;
  };
  // The first that fits: a MoE kernel is a GEMM too, an attention kernel may quantise.
  static constexpr Rule rules[] = {{"cuda graph", "whole graph"},
                                   {"allreduce", "all_reduce"},
                                   {"all_reduce", "all_reduce"},
                                   {"cross_device_reduce", "all_reduce"},
                                   {"allgather", "all_gather"},
                                   {"all_gather", "all_gather"},
                                   {"reducescatter", "reduce_scatter"},
                                   {"reduce_scatter", "reduce_scatter"},
                                   {"alltoall", "all_to_all"},
                                   {"all_to_all", "all_to_all"},
                                   {"sendrecv", "send_recv"},
                                   {"broadcast", "broadcast"},
                                   {"memcpy", "copy"},
                                   {"memset", "copy"},
                                   {"moe", "moe"},
                                   {"expert", "moe"},
                                   {"group_gemm", "moe"},
                                   {"grouped_gemm", "moe"},
                                   {"groupedgemm", "moe"},
                                   {"indexer", "indexer"},
                                   {"mqa_logits", "indexer"},
                                   {"fmha", "attention"},
                                   {"flash_", "attention"},
                                   {"flash::", "attention"},
                                   {"flashmla", "attention"},
                                   {"attention", "attention"},
                                   {"attn", "attention"},
                                   {"mla", "attention"},
                                   {"batchdecode", "attention"},
                                   {"batchprefill", "attention"},
                                   {"mha_", "attention"},
                                   {"gemm", "gemm"},
                                   {"nvjet", "gemm"},
                                   {"xmma", "gemm"},
                                   {"gemv", "gemm"},
                                   {"cutlass", "gemm"},
                                   {"splitkreduce", "gemm"},
                                   {"cublas", "gemm"},
                                   {"_mm_", "gemm"},
                                   {"rmsnorm", "norm"},
                                   {"rms_norm", "norm"},
                                   {"layernorm", "norm"},
                                   {"layer_norm", "norm"},
                                   {"rope", "rope"},
                                   {"rotary", "rope"},
                                   {"topk", "top_k"},
                                   {"top_k", "top_k"},
                                   {"argmax", "sampling"},
                                   {"sampling", "sampling"},
                                   {"softmax", "sampling"},
                                   {"top_p", "sampling"},
                                   {"quant", "quantise"},
                                   {"cvt_fp16_to_fp4", "quantise"},
                                   {"silu", "activation"},
                                   {"gelu", "activation"},
                                   {"act_and_mul", "activation"},
                                   {"elementwise", "elementwise"},
                                   {"triton_poi", "elementwise"},
                                   {"triton_red", "elementwise"},
                                   {"index", "gather"},
                                   {"gather", "gather"},
                                   {"scatter", "gather"},
                                   {"embedding", "gather"},
                                   {"concat", "gather"},
                                   {"catarray", "gather"}};
  for (const Rule& rule : rules)
    if (low.find(rule.part) != std::string::npos) return rule.family;
  return "other";
}

Expected<KernelTrace> read_traces(const std::vector<std::string>& paths) {
  KernelTrace out;
  Diagnostics errors;
  for (const auto& path : paths) {
    if (is_sqlite(path)) {
      read_nsys(path, out, errors);
      continue;
    }
    const auto text = read_table_text(path);
    if (!text)
      errors.append(text.error());
    else
      Reader(path, *text, out, errors).read();
  }
  if (!errors.empty()) return tl::unexpected(errors);
  std::stable_sort(out.work.begin(), out.work.end(), [](const auto& a, const auto& b) {
    return a.gpu != b.gpu ? a.gpu < b.gpu : a.start_us < b.start_us;
  });
  std::stable_sort(out.calls.begin(), out.calls.end(),
                   [](const auto& a, const auto& b) { return a.call < b.call; });
  return out;
}

TraceSummary summarise(const KernelTrace& trace) {
  TraceSummary out;
  std::map<std::string, std::vector<double>> kernels, families;
  std::vector<std::vector<const TracedWork*>> by_gpu(static_cast<std::size_t>(trace.gpus));
  for (const TracedWork& w : trace.work) {
    kernels[w.name].push_back(w.us);
    families[std::string(kernel_family(w.name))].push_back(w.us);
    by_gpu[static_cast<std::size_t>(w.gpu)].push_back(&w);
  }
  for (auto& [name, us] : kernels)
    out.kernels.push_back(times_of(std::string(kernel_family(name)), name, std::move(us)));
  for (auto& [name, us] : families) out.families.push_back(times_of(name, name, std::move(us)));
  out.kernels = by_total(std::move(out.kernels));
  out.families = by_total(std::move(out.families));
  std::map<std::int64_t, const TracedCall*> calls;
  for (const TracedCall& c : trace.calls) calls.emplace(c.call, &c);
  for (const auto& work : by_gpu) out.gpus.push_back(follow(work, calls));
  return out;
}

std::string render_trace(const TraceSummary& summary) {
  double total = 0;
  for (const auto& f : summary.families) total += f.total_us;
  Table families({"family", "launches", "total ms", "of kernel time", "median us"});
  for (const auto& f : summary.families)
    families.row({f.name, fmt::format("{}", f.launches), figure(f.total_us * 1e-3),
                  percent(total > 0 ? f.total_us / total : 0), figure(f.median_us)});
  Table kernels({"kernel", "family", "launches", "total ms", "p10 us", "median us", "p90 us"});
  kernels.left(1);
  constexpr std::size_t shown = 15;
  for (std::size_t i = 0; i < std::min(shown, summary.kernels.size()); ++i) {
    const auto& k = summary.kernels[i];
    kernels.row({short_name(k.name), k.family, fmt::format("{}", k.launches),
                 figure(k.total_us * 1e-3), figure(k.p10_us), figure(k.median_us),
                 figure(k.p90_us)});
  }
  Table gpus({"GPU", "span ms", "busy", "waits for host", "inside graphs", "launched, waits",
              "not known"});
  for (std::size_t i = 0; i < summary.gpus.size(); ++i) {
    const TracedGpu& g = summary.gpus[i];
    const auto share = [&](double us) { return percent(g.span_us > 0 ? us / g.span_us : 0); };
    gpus.row({fmt::format("{}", i), figure(g.span_us * 1e-3), share(g.busy_us),
              share(g.idle.host_us), share(g.idle.graph_us), share(g.idle.queued_us),
              share(g.idle.unknown_us)});
  }
  std::string out = families.text() + "\n" + kernels.text();
  if (summary.kernels.size() > shown)
    out += fmt::format("  and {} more\n", summary.kernels.size() - shown);
  return out + "\n" + gpus.text();
}

std::string trace_to_json(const TraceSummary& summary) {
  const auto times = [](const std::vector<KernelTimes>& all) {
    std::string out;
    for (const auto& k : all)
      out += fmt::format(
          "{}\n{{\"family\":{},\"name\":{},\"launches\":{},\"total_us\":{},\"median_us\":{},"
          "\"p10_us\":{},\"p90_us\":{}}}",
          out.empty() ? "" : ",", json_text(k.family), json_text(k.name), k.launches, k.total_us,
          k.median_us, k.p10_us, k.p90_us);
    return out;
  };
  std::string gpus;
  for (const auto& g : summary.gpus)
    gpus += fmt::format(
        "{}\n{{\"span_us\":{},\"busy_us\":{},\"idle_us\":{{\"host\":{},\"graph\":{},\"queued\":{},"
        "\"unknown\":{}}}}}",
        gpus.empty() ? "" : ",", g.span_us, g.busy_us, g.idle.host_us, g.idle.graph_us,
        g.idle.queued_us, g.idle.unknown_us);
  return fmt::format("{{\"schema\":1,\"families\":[{}],\n\"kernels\":[{}],\n\"gpus\":[{}]}}\n",
                     times(summary.families), times(summary.kernels), gpus);
}

std::string trace_to_csv(const TraceSummary& summary) {
  std::string out = "family,kernel,launches,total_us,median_us,p10_us,p90_us\n";
  for (const auto& k : summary.kernels) {
    std::string name;
    for (const char c : k.name) name += c == '"' ? "\"\"" : std::string(1, c);
    out += fmt::format("{},\"{}\",{},{},{},{},{}\n", k.family, name, k.launches, k.total_us,
                       k.median_us, k.p10_us, k.p90_us);
  }
  return out;
}
