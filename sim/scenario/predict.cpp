#include "sim/scenario/predict.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "sim/base/parallel.hpp"
#include "sim/base/version.hpp"
#include "sim/report/table.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/experiment.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

std::string title(const Experiment& e, const Inputs& in) {
  std::string edits;
  if (const Settings* node = in.scenario.find("machine_edits"))
    for (const auto& entry : node->entries())
      edits += fmt::format(", {}: {}", entry.key, entry.value.text());
  return fmt::format("{} on {}{}, {} TP{}, CUDA graphs {}", e.model().name, e.machine().name, edits,
                     e.build().name, e.tensor_parallel(), e.graphs() ? "on" : "off");
}

std::string spread_text(double spread) {
  return spread > 1 ? fmt::format(", x or / {:g}", spread) : "";
}

// Whether all-reduces wait for what host memory lets through.
bool held_by_staging(const Experiment& e) {
  const auto& limit = e.collectives().path_limit();
  return limit && (limit->kind == "memory" || limit->kind == "staging");
}

// How the ring's slowest hop goes, and the link that holds it.
std::pair<std::string, std::string> way_of(const CollectivePricer& c) {
  const Transport t = c.transport();
  const std::string via = t == Transport::shm ? "staged" : std::string(name(t));
  if (!c.path_limit()) return {via, ""};
  return {via, fmt::format("{}, {}", c.path_limit()->name, text(c.path_limit()->bandwidth.value))};
}

// What the collective's numbers rest on: its transport and the link that limits it.
std::string rests_on_links(const Experiment& e) {
  const auto& c = e.collectives();
  if (!c.path_limit()) return "no collective";
  if (c.transport() == Transport::nvlink)
    return e.machine().collectives.empty() ? "fitted: NCCL's NVLink law"
                                           : "NCCL's NVLink law, scaled to measurements of the box";
  const bool staged = c.transport() == Transport::shm;
  const auto& hop = staged ? c.interconnect().shm.hop_ll : c.interconnect().p2p.hop_ll;
  const auto& limit = c.path_limit()->bandwidth;
  if (staged && held_by_staging(e))
    return fmt::format("{}: {} {}{}", name(limit.basis), limit.label, text(limit.value),
                       spread_text(limit.spread));
  return fmt::format("{}: NCCL ring law, hop {}", name(hop.basis), text(hop.value));
}

std::string rests_on_collective(const Experiment& e, const std::string& group,
                                const PassShape& shape) {
  if (group != "all-reduce") return rests_on_links(e);
  const CollectivePrice& price = e.collectives().price(
      Collective::all_reduce, Bytes(shape.tokens() * std::int64_t{e.model().hidden} * 2));
  if (price.kernel == "nccl")
    return e.build().nccl_channels
               ? fmt::format("{}: NCCL ring, {} channels", name(price.provenance), price.channels)
               : rests_on_links(e);
  return fmt::format("{}: {} kernel", name(price.provenance), price.kernel);
}

// Once below the breakdown, what its lines have in common.
std::vector<std::string> breakdown_notes(const Experiment& e) {
  std::vector<std::string> out;
  const auto& c = e.collectives();
  std::string line = fmt::format("kernels: hardware/tables/{}/laws.yaml", e.tables_of());
  if (e.tables_of() != e.gpu().id) line += ", scaled to this card";
  if (c.transport() == Transport::shm) line += "; staged: through host memory, no P2P";
  out.push_back(line);
  for (const auto& [kernel, sets] : e.costs().tables)
    out.push_back(fmt::format("{} from tables: {}", kernel, sets));
  std::vector<std::string> runs = e.build().dispatch.fitted_on;
  if (c.path_limit())
    for (const auto& run : c.path_limit()->bandwidth.fitted_on)
      if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  if (!runs.empty())
    out.push_back(
        fmt::format("launch and staging costs were fitted on: {}", fmt::join(runs, ", ")));
  return out;
}

// The passes that a run's breakdown adds up: the busiest one, or all of a cold prefill.
std::vector<PassRecord> passes_shown(const Experiment& e, const RunReport& r) {
  std::vector<PassRecord> out;
  if (r.kind == RunKind::cold_prefill)
    for (const SteadyPass& pass : e.passes()) out.push_back(pass.record);
  else if (r.metrics.busiest.batch > 0)
    out.push_back(r.metrics.busiest);
  return out;
}

void add(Breakdown& sum, const Breakdown& b) {
  for (const BreakdownItem& item : b.items) {
    const auto it = std::find_if(sum.items.begin(), sum.items.end(), [&](const auto& known) {
      return known.group == item.group && known.resource == item.resource;
    });
    if (it == sum.items.end())
      sum.items.push_back(item);
    else
      it->time += item.time;
  }
  sum.device += b.device;
  sum.host += b.host;
}

void describe_step(const Experiment& e, RunReport& r) {
  const auto passes = passes_shown(e, r);
  if (passes.empty()) return;
  const PassRecord& busiest = passes.back();
  const PassShape shape = busiest.shape.padded_to(busiest.padded);
  const double slow = e.machine().host.virtualisation.value;
  // In a row of such passes the slower of the two sets the pace (asynchronous loop), or both add
  // up.
  const bool overlapped = e.sizes().loop_depth > 1;
  Breakdown b;
  Duration step, host;
  for (const PassRecord& pass : passes) {
    const PassShape padded = pass.shape.padded_to(pass.padded);
    const Duration around =
        (e.build().step_host.value + pass.batch * e.build().sequence_host.value).scaled(slow);
    const Breakdown one = e.breakdown(padded, pass.captured);
    step += overlapped ? std::max(one.device, one.host + around)
                       : e.cost(padded, pass.captured).span + around;
    host += one.host + around;
    add(b, one);
  }
  r.step_batch = busiest.batch;
  r.step_kv_mean = r.kind == RunKind::cold_prefill ? r.kv_tokens_each
                                                   : busiest.shape.decode_kv_tokens / busiest.batch;
  r.step_ms = step.ms();
  r.step_device_ms = b.device.ms();
  r.step_host_ms = host.ms();

  std::vector<std::pair<Provenance, double>> shares;
  const auto share = [&](Provenance p, Duration time) {
    for (auto& [known, sum] : shares)
      if (known == p) return void(sum += time / step);
    shares.emplace_back(p, time / step);
  };
  for (const auto& item : b.items) {
    if (item.time == Duration()) continue;
    const bool links = item.resource == "interconnect";
    const auto [via, link] =
        links ? way_of(e.collectives()) : std::pair<std::string, std::string>();
    r.breakdown.push_back(
        {item.group, item.resource, via, link, item.time.ms(), item.time / step, item.provenance,
         links
             ? rests_on_collective(e, item.group, shape)
             : fmt::format("{}, median error {:.0f} %", name(item.provenance), item.error * 100)});
    share(item.provenance, item.time);
  }
  if (step > b.device) {
    const auto& dispatch = e.build().dispatch;
    const Duration waits = step - b.device;
    r.breakdown.push_back(
        {"waiting for the host thread", "kernel launch", "", "", waits.ms(), waits / step,
         dispatch.basis,
         busiest.captured
             ? fmt::format("{}: scheduler and graph launch", name(e.build().step_host.basis))
             : fmt::format("{}: {} a launch", name(dispatch.basis),
                           text(dispatch.value + e.machine().host.kernel_launch.value))});
    share(dispatch.basis, waits);
  }
  std::stable_sort(r.breakdown.begin(), r.breakdown.end(),
                   [](const auto& a, const auto& c) { return a.ms > c.ms; });
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& c) { return a.second > c.second; });
  r.provenance_shares = std::move(shares);
  r.breakdown_notes = breakdown_notes(e);
}

// What the run is, what its build runs and where that is known to be slower than any law.
void describe_build(const Experiment& e, const Inputs& in, RunReport& r) {
  const Build& build = e.build();
  r.build = build.id;
  if (const auto* decode = std::get_if<SteadyDecode>(&e.workload().passes)) {
    r.kind = RunKind::steady_decode;
    r.sequences = decode->sequences;
    r.kv_tokens_each = decode->prompt;
  } else if (const auto* prefill = std::get_if<ColdPrefill>(&e.workload().passes)) {
    r.kind = RunKind::cold_prefill;
    r.sequences = 1;
    r.kv_tokens_each = prefill->prompt;
  }
  for (const auto& [from, what] : in.build_filled)
    r.notes.push_back(fmt::format("left open by this build, as in {}: {}", from, what));
  if (build.small_kernels && !e.fitted())
    r.notes.push_back(
        "without the build's two fitted numbers: its back end's own law for the experts, and for "
        "small kernels that of the card (3 us each, 30 us a layer without an indexer)");
  else if (build.small_kernels)
    r.notes.push_back(
        fmt::format("fitted for this build: {} of small kernels a layer, experts read "
                    "at {}",
                    text(build.small_kernels->value), text(build.moe_rate->value)));
  if (!build.all_reduce.empty() && e.collectives().policy().empty() && e.tensor_parallel() > 1)
    r.notes.push_back("without P2P the build's own all-reduce kernels cannot run: NCCL for all");
  if (e.bf16_activations()) r.notes.push_back("routed experts with 16-bit activations (A16)");
  if (e.dense_quantized()) r.notes.push_back("attention projections quantised online to MXFP8");
  if (r.kind == RunKind::serving) return;
  for (const KnownDefect& d : build.known_defects)
    if (d.covers(r.kind == RunKind::cold_prefill, e.bf16_activations(), r.sequences,
                 r.kv_tokens_each))
      r.known_defects.push_back(fmt::format("{} ({})", d.what, d.range()));
}

// Runs beside the first that a report asks for: with one resource alone, or with other inputs. All
// are collected before any is made, since they can be made side by side.
class MoreRuns {
 public:
  using Id = std::size_t;

  Id add(Only only) { return push({only, std::nullopt, {}}); }
  Id add(Inputs changed) { return push({Only::everything, std::move(changed), {}}); }
  void make(const Experiment& base, const Inputs& in) {
    parallel_for(runs_.size(), [&](std::size_t i) {
      Run& run = runs_[i];
      // each with cost models of its own: they remember what they were asked last
      const auto experiment = base.remake(run.changed ? *run.changed : in);
      if (experiment) run.metrics = (*experiment)->run(run.only);
      run.changed.reset();
    });
  }
  /// Nothing where the inputs did not fit together.
  const std::optional<RunMetrics>& operator[](Id id) const { return runs_[id].metrics; }

 private:
  struct Run {
    Only only;
    std::optional<Inputs> changed;
    std::optional<RunMetrics> metrics;
  };
  Id push(Run run) {
    runs_.push_back(std::move(run));
    return runs_.size() - 1;
  }
  std::vector<Run> runs_;
};

// What is to be done with the runs once they are made.
using WhenMade = std::function<void(RunReport&)>;

WhenMade plan_ceilings(const Experiment& e, MoreRuns& runs) {
  std::vector<std::pair<const char*, MoreRuns::Id>> asked;
  for (const auto& [only, resource] : {std::pair{Only::interconnect, "interconnect"},
                                       {Only::launch, "kernel launch"},
                                       {Only::memory, "memory bandwidth"},
                                       {Only::arithmetic, "arithmetic"}})
    if (only != Only::interconnect || e.tensor_parallel() > 1)
      asked.emplace_back(resource, runs.add(only));
  std::optional<MoreRuns::Id> arrivals;
  if (e.workload().needs_scheduler()) arrivals = runs.add(Only::nothing);
  return [&runs, asked, arrivals](RunReport& r) {
    for (const auto& [resource, id] : asked) {
      const double throughput = *runs[id]->find(r.headline());
      // A captured step without launches costs nothing on this resource: no ceiling.
      if (throughput > 0) r.ceilings.push_back({resource, throughput});
    }
    if (arrivals) r.ceilings.push_back({"arrivals", runs[*arrivals]->output_throughput});
    std::stable_sort(r.ceilings.begin(), r.ceilings.end(),
                     [](const auto& a, const auto& b) { return a.throughput < b.throughput; });
  };
}

// 90 % interval: each constant with a spread is moved to either end alone; the ratios that come out
// are added in squares, apart for up and down. Constants that were fitted together are not
// independent, so this is rather too wide than too narrow.
WhenMade plan_intervals(const Inputs& in, MoreRuns& runs) {
  struct Moved {
    std::string label;
    std::array<MoreRuns::Id, 2> ends;
  };
  std::vector<Moved> moved;
  for (const Uncertain& u : uncertain_constants(in))
    moved.push_back(
        {u.label,
         {runs.add(scaled(in, u.path, u.spread)), runs.add(scaled(in, u.path, 1 / u.spread))}});
  return [&runs, moved](RunReport& r) {
    const auto base = r.metrics.all();
    std::vector<double> up(base.size()), down(base.size());
    for (const Moved& m : moved) {
      double effect = 0;
      for (const auto id : m.ends) {
        if (!runs[id]) continue;
        const auto metrics = runs[id]->all();
        for (std::size_t i = 0; i < base.size(); ++i) {
          if (base[i].second <= 0 || metrics[i].second <= 0) continue;
          const double ratio = metrics[i].second / base[i].second;
          if (ratio > 1)
            up[i] += (ratio - 1) * (ratio - 1);
          else
            down[i] += (1 / ratio - 1) * (1 / ratio - 1);
          if (base[i].first == r.headline() && std::abs(ratio - 1) > std::abs(effect))
            effect = ratio - 1;
        }
      }
      if (std::abs(effect) >= 0.005) r.drivers.emplace_back(m.label, effect);
    }
    for (std::size_t i = 0; i < base.size(); ++i)
      r.intervals.push_back({base[i].first, base[i].second,
                             base[i].second / (1 + std::sqrt(down[i])),
                             base[i].second * (1 + std::sqrt(up[i]))});
    std::stable_sort(r.drivers.begin(), r.drivers.end(), [](const auto& a, const auto& b) {
      return std::abs(a.second) > std::abs(b.second);
    });
  };
}

// The changes name no other file, so that nothing is read again.
WhenMade plan_what_ifs(const Experiment& e, const Inputs& in, MoreRuns& runs) {
  std::vector<std::vector<Override>> tries;
  const bool staged = e.tensor_parallel() > 1 && e.collectives().transport() == Transport::shm;
  const bool eager = !e.graphs() && e.build().decode_graphs;
  const Override p2p{"machine_edits.p2p", "on"}, graphs{"engine.cuda_graph", "on"};
  if (staged) tries.push_back({p2p});
  if (eager) tries.push_back({graphs});
  if (staged && eager) tries.push_back({p2p, graphs});
  const auto& [option, value] = e.sizes().makes_asynchronous;
  if (e.sizes().loop_depth == 1) tries.push_back({{"engine." + option, value}});
  std::vector<std::pair<std::string, MoreRuns::Id>> asked;
  for (const auto& changes : tries) {
    Inputs changed = in;
    std::string name;
    for (const auto& c : changes) {
      changed.scenario.set(c.path, *parse_yaml("what-if", c.value));
      name += (name.empty() ? "" : " ") + c.path + "=" + c.value;
    }
    asked.emplace_back(std::move(name), runs.add(std::move(changed)));
  }
  return [&runs, asked](RunReport& r) {
    for (const auto& [change, id] : asked) {
      if (!runs[id]) continue;
      WhatIf w;
      w.change = change;
      w.throughput = *runs[id]->find(r.headline());
      w.ratio = w.throughput / r.throughput();
      r.what_ifs.push_back(std::move(w));
    }
  };
}

// Up to which batch the host is slower than the GPUs, at the mean KV length of the busiest pass; 0
// when it never is.
std::int64_t host_bound_up_to(const Experiment& e, const RunReport& r) {
  const double slow = e.machine().host.virtualisation.value;
  std::int64_t last = 0;
  for (std::int64_t batch = 1; batch <= r.step_batch; ++batch) {
    const int captured = e.sizes().captured_size(batch);
    const std::int64_t padded = captured > 0 ? captured : batch;
    const Timeline t = e.cost(PassShape::decode(padded, r.step_kv_mean), captured > 0);
    const Duration around =
        (e.build().step_host.value + batch * e.build().sequence_host.value).scaled(slow);
    if (t.host + around > t.device) last = batch;
  }
  return last;
}

std::string sentence_case(std::string s) {
  if (!s.empty() && s[0] >= 'a' && s[0] <= 'z') s[0] = static_cast<char>(s[0] - 'a' + 'A');
  return s;
}

void give_verdict(const Experiment& e, RunReport& r) {
  if (r.ceilings.size() < 2 || r.breakdown.empty()) return;
  const Ceiling& first = r.ceilings[0];
  const Ceiling& second = r.ceilings[1];
  double collectives = 0;
  for (const auto& row : r.breakdown)
    if (row.resource == "interconnect") collectives += row.ms;
  // Two ceilings within a quarter of each other: taking one away brings little.
  const bool close = second.throughput < 1.25 * first.throughput;
  if (first.resource == "arrivals")
    r.verdict = "The load holds it: the requests come no faster";
  else if (close)
    r.verdict = fmt::format("Two walls of nearly equal height: {} ({} tok/s) and {} ({} tok/s)",
                            first.resource, figure(first.throughput), second.resource,
                            figure(second.throughput));
  else
    r.verdict = fmt::format("{} holds it", sentence_case(first.resource));
  r.verdict += r.kind == RunKind::cold_prefill
                   ? fmt::format(". The prompt takes the GPUs {} ms", figure(r.step_device_ms))
                   : fmt::format(". A step of {} requests takes the GPUs {} ms", r.step_batch,
                                 figure(r.step_device_ms));
  if (collectives > 0) r.verdict += fmt::format(", {} of them in collectives", figure(collectives));
  r.verdict += fmt::format("; the host needs {} ms", figure(r.step_host_ms));
  if (const auto batch = r.kind == RunKind::cold_prefill ? 0 : host_bound_up_to(e, r); batch > 0)
    r.verdict += fmt::format(" and is the slower one up to a batch of {}", batch);
  r.verdict += close ? "."
                     : fmt::format(". Next behind it: {} ({} tok/s).", second.resource,
                                   figure(second.throughput));
}

void warn(const Experiment& e, RunReport& r) {
  const RunMetrics& m = r.metrics;
  if (m.rejected > 0)
    r.warnings.push_back(
        fmt::format("{} requests never fit the KV pool of {} tokens and were rejected; try "
                    "more GPUs or a larger mem_fraction_static",
                    m.rejected, grouped(r.kv_tokens.count())));
  if (m.retractions > 0)
    r.warnings.push_back(
        fmt::format("the KV pool ran out {} times and requests were recomputed; try a smaller "
                    "max_running_requests or a larger mem_fraction_static",
                    m.retractions));
  for (const auto& defect : r.known_defects)
    r.warnings.push_back(fmt::format("known defect of this build, not modelled: {}", defect));
  if (r.kind == RunKind::steady_decode) {
    if (m.batch_max > e.sizes().max_running_requests)
      r.warnings.push_back(fmt::format(
          "the server runs at most {} requests at once, the rest would queue; try a lower "
          "workload.concurrency",
          e.sizes().max_running_requests));
  } else if (m.batch_max >= e.sizes().max_running_requests)
    r.warnings.push_back(
        fmt::format("the cap of {} running requests was reached; try a larger "
                    "engine.max_running_requests",
                    e.sizes().max_running_requests));
  if (e.graphs() && m.batch_max > e.sizes().graph_sizes.back())
    r.warnings.push_back(
        fmt::format("batches above {} ran without a CUDA graph; try a larger "
                    "engine.cuda_graph_max_bs",
                    e.sizes().graph_sizes.back()));
  if (m.overrun)
    r.warnings.push_back("the run was given up after 26 simulated days; try fewer requests");
  else if (!r.little_holds || !r.conserved)
    r.warnings.push_back(
        "a conservation law does not hold: this is a bug in ceiling, please report it");
  if (held_by_staging(e) &&
      e.collectives().path_limit()->bandwidth.basis > Provenance::interpolated)
    r.next =
        "narrow the interval: time one all-reduce of 4 KiB and one of 64 KiB on this box and state "
        "staging.hop_latency and the staging capacity in its machine file";
}

}  // namespace

Expected<RunReport> predict(const Scenario& scenario, const PredictOptions& options) {
  auto in = resolve(scenario);
  if (!in) return tl::unexpected(in.error());
  RunReport r;
  auto made = Experiment::make(*in, &r.values);
  if (!made) return tl::unexpected(made.error());
  Experiment& e = **made;
  // The same bytes wherever the data folder lies.
  const std::string data = data_folder() + "/";
  const auto shorten = [&](std::string& path) {
    if (path.starts_with(data)) path.erase(0, data.size());
  };
  for (auto& v : r.values) shorten(v.origin);
  for (auto& file : in->files) shorten(file);
  std::erase_if(r.values, [](const ResolvedValue& v) {
    return v.path.ends_with(".source") || v.path.ends_with(".label") || v.path.ends_with(".note");
  });

  r.context = {std::string(version()),
               std::string(git_commit()),
               scenario.file,
               fmt::format("{:016x}", in->hash()),
               in->files,
               0};
  for (const auto& v : r.values)
    if (v.path == "workload.seed") r.context.seed = parse<std::int64_t>(v.value).value_or(0);
  r.name = scenario.name;
  r.title = title(e, *in);
  r.workload = e.workload().description;
  if (!e.build().note.empty()) r.notes.push_back(e.build().note);
  if (!in->build_chosen_because.empty()) r.notes.push_back(in->build_chosen_because);
  if (const auto& moe = e.model().moe) {
    const auto& popularity = e.step().popularity();
    r.notes.push_back(fmt::format(
        "expert popularity {:g}: 1 / 8 / 64 tokens touch {:.0f} / {:.0f} / {:.0f} of {} "
        "experts (0 is uniform)",
        popularity.skew(), popularity.distinct(1), popularity.distinct(8), popularity.distinct(64),
        moe->experts));
  }
  describe_build(e, *in, r);
  r.metrics = e.run();
  if (options.requests) e.run(Only::everything, &r.requests, Keep::gaps);
  r.kv_tokens = e.sizes().kv_tokens;

  const RunMetrics& m = r.metrics;
  r.little_rate = m.request_throughput;
  r.little_w = m.e2e_ms.mean / 1e3;
  r.little_l = m.in_flight_mean;
  r.little_holds = r.kind != RunKind::serving || m.rejected > 0 ||
                   std::abs(r.little_l - r.little_rate * r.little_w) <= 1e-6 * (1 + r.little_l);
  const ServerCounts& c = m.counts;
  r.conserved = c.arrived == c.finished + c.rejected && c.pages_free_end == c.pages_total;

  Diagnostics errors;
  for (const auto& x : scenario.expect) {
    const double predicted = *m.find(x.metric);
    if (r.kind != RunKind::serving && predicted == 0)
      errors.error(
          scenario.tree.find("workload")->where(),
          fmt::format("this workload has no '{}'", x.metric),
          fmt::format("it has {}{}", r.headline(),
                      r.kind == RunKind::cold_prefill ? " and ttft_ms.mean" : " and tpot_ms.mean"));
    r.expect.push_back(
        {x.metric, x.value, predicted, predicted / x.value - 1, x.within, x.source, x.left_out});
  }
  if (!errors.empty()) return tl::unexpected(errors);
  describe_step(e, r);
  MoreRuns runs;
  std::vector<WhenMade> parts;
  if (options.ceilings) parts.push_back(plan_ceilings(e, runs));
  if (options.what_ifs) parts.push_back(plan_what_ifs(e, *in, runs));
  if (options.intervals) parts.push_back(plan_intervals(*in, runs));
  runs.make(e, *in);
  for (const auto& part : parts) part(r);
  if (options.ceilings) give_verdict(e, r);
  warn(e, r);
  return r;
}

Expected<std::vector<ResolvedValue>> dry_run(const Scenario& scenario) {
  auto in = resolve(scenario);
  if (!in) return tl::unexpected(in.error());
  std::vector<ResolvedValue> values;
  auto made = Experiment::make(*in, &values);
  if (!made) return tl::unexpected(made.error());
  return values;
}
