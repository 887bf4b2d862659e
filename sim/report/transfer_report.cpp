#include "sim/report/transfer_report.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/table.hpp"
#include "sim/report/topology_tree.hpp"

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

const std::string& device_name(const Topology& t, DeviceId id) {
  return t.devices()[static_cast<std::size_t>(id)].name;
}

std::string end_name(const Machine& m, int end) {
  return end == Copy::host
             ? std::string("host")
             : device_name(m.topology, m.topology.gpus()[static_cast<std::size_t>(end)]);
}

// ---- a route ----

constexpr Bytes large{1 << 28};

// One way from end to end: its links, and what a copy alone gets on it.
struct Way {
  std::string what;
  bool taken = true;  // by this machine as it is
  std::vector<Hop> hops;
  DeviceId start = 0;
  CopyOutcome alone;
  Duration latency;
};

std::vector<Way> ways(const RouteReport& r) {
  const Topology& t = r.machine.topology;
  const CopyOptions as_is = copy_options(r.machine);
  const auto gpu = [&](int rank) { return t.gpus()[static_cast<std::size_t>(rank)]; };
  const Copy copy{r.from, r.to, large};
  std::vector<Way> out;
  if (r.from == Copy::host || r.to == Copy::host) {
    const DeviceId end = gpu(r.from == Copy::host ? r.to : r.from);
    const DeviceId memory = t.nearest_memory(end);
    Way way{"direct", true, {}, r.from == Copy::host ? memory : end, {}, {}};
    way.hops = r.from == Copy::host ? t.route(memory, end) : t.route(end, memory);
    way.alone = run_copies(t, {copy}, as_is).copies[0];
    way.latency = t.latency(way.hops);
    return {way};
  }
  const bool staged = is_staged(t, r.from, r.to, as_is);
  CopyOptions direct = as_is;
  direct.p2p = true;
  direct.p2p_off.clear();
  Way peer{"P2P", !staged, t.peer_route(gpu(r.from), gpu(r.to)), gpu(r.from), {}, {}};
  peer.alone = run_copies(t, {copy}, direct).copies[0];
  peer.latency = t.latency(peer.hops);
  out.push_back(std::move(peer));
  CopyOptions off = as_is;
  off.p2p = false;
  if (has_way(t, copy, off)) {
    Way through{"staged through " + device_name(t, t.nearest_memory(gpu(r.to))),
                staged,
                t.staged_route(gpu(r.from), gpu(r.to)),
                gpu(r.from),
                run_copies(t, {copy}, off).copies[0],
                copy_latency(t, r.from, r.to, off)};
    out.push_back(std::move(through));
  }
  return out;
}

double hop_gbps(const Link& link, bool forward) {
  return (forward ? link.bandwidth.value : link.back.value_or(link.bandwidth.value)).count() / 1e9;
}

std::string far_end(const Topology& t, const Hop& hop) {
  const Link& link = t.link(hop.link);
  return device_name(t, hop.forward ? link.b : link.a);
}

std::string path_word(const RouteReport& r) {
  if (r.from == Copy::host || r.to == Copy::host) return "";
  const Topology& t = r.machine.topology;
  return std::string(name(t.path_kind(t.gpus()[static_cast<std::size_t>(r.from)],
                                      t.gpus()[static_cast<std::size_t>(r.to)])));
}

// ---- flows ----

std::string flow_name(const Copy& c) {
  const auto end = [](int gpu) {
    return gpu == Copy::host ? std::string("host") : fmt::format("{}", gpu);
  };
  return end(c.from) + " > " + end(c.to);
}

std::string_view mover_name(Mover mover) {
  return mover == Mover::copy_engine ? "copy_engine" : "sm_stores";
}

// Beyond this a line for each flow is no summary any more.
constexpr std::size_t flows_shown = 32;

std::string each_flow(const FlowsReport& r) {
  Table table({"flow", "GB/s", "time", "way", "held longest by"}, 2);
  table.left(3).left(4);
  for (std::size_t i = 0; i < r.copies.size(); ++i) {
    const CopyOutcome& o = r.outcome.copies[i];
    table.row({flow_name(r.copies[i]), figure(o.rate.count() / 1e9), text(o.time),
               o.staged ? "staged" : "direct", o.limit});
  }
  return table.text();
}

std::string each_sender(const FlowsReport& r) {
  struct Sender {
    int flows = 0, staged = 0;
    double low = 0, high = 0;
    Duration last;
    std::map<std::string, int> limits;
  };
  std::map<int, Sender> senders;
  for (std::size_t i = 0; i < r.copies.size(); ++i) {
    Sender& s = senders[r.copies[i].from];
    const CopyOutcome& o = r.outcome.copies[i];
    const double rate = o.rate.count() / 1e9;
    s.low = s.flows == 0 ? rate : std::min(s.low, rate);
    s.high = std::max(s.high, rate);
    s.last = std::max(s.last, o.time);
    s.staged += o.staged;
    ++s.flows;
    ++s.limits[o.limit];
  }
  Table table({"from", "flows", "staged", "GB/s of a flow", "longest", "most are held by"}, 2);
  table.left(5);
  for (const auto& [from, s] : senders) {
    const auto most = std::max_element(s.limits.begin(), s.limits.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    table.row({end_name(r.machine, from), fmt::format("{}", s.flows), fmt::format("{}", s.staged),
               figure(s.low) == figure(s.high)
                   ? figure(s.low)
                   : fmt::format("{} to {}", figure(s.low), figure(s.high)),
               text(s.last), most->first});
  }
  return table.text();
}

// ---- collectives ----

// Of half precision, as engines reduce.
constexpr std::int64_t bytes_per_element = 2;

std::int64_t count_of(Collective op, Bytes size, int ranks) {
  const bool split = op == Collective::all_gather || op == Collective::reduce_scatter ||
                     op == Collective::all_to_all;
  return size.count() / bytes_per_element / (split ? ranks : 1);
}

std::string_view reduction(Collective op) {
  return op == Collective::all_reduce || op == Collective::reduce_scatter ? "sum" : "none";
}

double algbw(const CollectiveReport::Row& row) {
  return row.size.real() / row.price.time.seconds() / 1e9;
}

// NCCL has algorithms and protocols, a kernel of an engine its name.
std::string how(const CollectivePrice& p) {
  return p.kernel == "nccl" ? fmt::format("{} {}", p.algorithm, name(p.protocol)) : p.kernel;
}

// What one price takes, and what it waits for.
std::pair<std::string, std::string> taken(const CollectivePrice& p) {
  std::string out = how(p);
  if (p.kernel != "nccl" && p.kernel != p.algorithm) out += ": " + p.algorithm;
  if (p.transport == Transport::shm)
    out += " over SHM, staged in host memory";
  else if (p.algorithm != name(p.transport))
    out += fmt::format(" over {}", name(p.transport));
  if (p.channels > 0) out += fmt::format(", {} channels", p.channels);
  return {out, p.limit};
}

// Measured sizes and those between them rest on one curve; the looser spread stands for both.
std::string basis_text(const CollectivePrice& p, double spread) {
  if (p.provenance == Provenance::measured || p.provenance == Provenance::interpolated)
    return fmt::format("measured or interpolated between measured sizes, x or / {:.3g}: {}", spread,
                       p.anchor);
  return rests_on(p.provenance, p.spread) + (p.anchor.empty() ? "" : ", scaled to " + p.anchor);
}

std::string sizes_text(const CollectiveReport& r, std::size_t first, std::size_t last) {
  return first == last ? text(r.rows[first].size)
                       : fmt::format("{} to {}", text(r.rows[first].size), text(r.rows[last].size));
}

// Calls `say(first, last)` for each run of rows whose `of(price)` is the same.
template <class Of, class Say>
void for_runs(const CollectiveReport& r, Of of, Say say) {
  for (std::size_t first = 0; first < r.rows.size();) {
    std::size_t last = first;
    while (last + 1 < r.rows.size() && of(r.rows[last + 1].price) == of(r.rows[first].price))
      ++last;
    say(first, last);
    first = last + 1;
  }
}

std::string micros(Duration d) {
  return d.us() < 99.995 ? fmt::format("{:.2f}", d.us()) : fmt::format("{:.1f}", d.us());
}

}  // namespace

std::string render_route(const RouteReport& r) {
  const Topology& t = r.machine.topology;
  const bool host = r.from == Copy::host || r.to == Copy::host;
  std::string out =
      fmt::format("{} to {} on {}{}\n", end_name(r.machine, r.from), end_name(r.machine, r.to),
                  r.machine.name, host ? "" : ": " + path_word(r));
  const auto all = ways(r);
  for (const Way& way : all) {
    out += "\n" + way.what;
    if (!way.taken)
      out += way.what == "P2P" ? ", not taken: there is no peer access" : ", not taken: P2P is on";
    out += "\n";
    Table table({"", "GB/s", "latency", "reported", "rests on"}, 2);
    table.left(3).left(4);
    std::string at = device_name(t, way.start);
    for (const Hop& hop : way.hops) {
      const Link& link = t.link(hop.link);
      const std::string next = far_end(t, hop);
      table.row(
          {at + " > " + next,
           link.kind == "internal" ? "in the chip" : figure(hop_gbps(link, hop.forward)),
           text(link.latency), reported(link),
           link.kind == "internal" ? "" : rests_on(link.bandwidth.basis, link.bandwidth.spread)});
      at = next;
    }
    table.row({"alone on the box", figure(way.alone.rate.count() / 1e9), text(way.latency), "",
               "held by " + way.alone.limit});
    out += table.text();
  }
  if (!host)
    out += "\n" + wrapped(
                      "A staged copy's latency is what p2pBandwidthLatencyTest shows without "
                      "P2P (14 us, seen), not the sum of its hops.",
                      0);
  const auto other = [&](int end) {
    return end == Copy::host ? std::string("host") : fmt::format("{}", end);
  };
  out += fmt::format("\nnext   ceiling topology {} --flows '{}<>{}'\n", r.named, other(r.from),
                     other(r.to));
  return out;
}

std::string route_to_json(const RouteReport& r) {
  const Topology& t = r.machine.topology;
  Json list = Json::array();
  for (const Way& way : ways(r)) {
    Json hops = Json::array();
    DeviceId at = way.start;
    for (const Hop& hop : way.hops) {
      const Link& link = t.link(hop.link);
      const DeviceId next = hop.forward ? link.b : link.a;
      hops.push_back({{"from", device_name(t, at)},
                      {"to", device_name(t, next)},
                      {"kind", link.kind},
                      {"bandwidth_GBs", hop_gbps(link, hop.forward)},
                      {"latency_ns", link.latency.us() * 1e3},
                      {"gen", link.gen},
                      {"lanes", link.lanes},
                      {"provenance", name(link.bandwidth.basis)},
                      {"spread", link.bandwidth.spread}});
      at = next;
    }
    list.push_back({{"way", way.what},
                    {"taken", way.taken},
                    {"hops", hops},
                    {"GBs", way.alone.rate.count() / 1e9},
                    {"limit", way.alone.limit},
                    {"latency_us", way.latency.us()}});
  }
  return dumped({{"schema", 1},
                 {"machine", r.machine.id},
                 {"from", end_name(r.machine, r.from)},
                 {"to", end_name(r.machine, r.to)},
                 {"class", path_word(r)},
                 {"ways", list}});
}

std::string render_flows(const FlowsReport& r) {
  const CopiesOutcome& o = r.outcome;
  std::string out = fmt::format(
      "{} {} of {} {} on {}, by {}\n\n", r.copies.size(), r.copies.size() == 1 ? "copy" : "copies",
      text(r.copies[0].bytes), r.copies.size() == 1 ? "alone" : "together", r.machine.name,
      r.mover == Mover::copy_engine ? "copy engines" : "stores of kernels");
  out += r.copies.size() > flows_shown ? each_sender(r) : each_flow(r);
  out += fmt::format("\n  together {} in {}; what holds most of it: {}\n", text(o.aggregate),
                     text(o.time), o.limit);
  const auto staged = std::count_if(o.copies.begin(), o.copies.end(),
                                    [](const CopyOutcome& c) { return c.staged; });
  std::string next = r.named;
  if (staged > 0 && !r.machine.interconnect.p2p_capable)
    next += fmt::format(" --edit p2p=on --flows '{}'", r.flows);
  else if (r.machine.gpu_count() > 1)
    next += " --collective all_to_all";
  return out + fmt::format("\nnext   ceiling topology {}\n", next);
}

std::string flows_to_json(const FlowsReport& r) {
  Json flows = Json::array();
  for (std::size_t i = 0; i < r.copies.size(); ++i) {
    const CopyOutcome& o = r.outcome.copies[i];
    flows.push_back({{"from", end_name(r.machine, r.copies[i].from)},
                     {"to", end_name(r.machine, r.copies[i].to)},
                     {"size_bytes", r.copies[i].bytes.count()},
                     {"GBs", o.rate.count() / 1e9},
                     {"time_us", o.time.us()},
                     {"staged", o.staged},
                     {"limit", o.limit}});
  }
  return dumped({{"schema", 1},
                 {"machine", r.machine.id},
                 {"mover", mover_name(r.mover)},
                 {"flows", flows},
                 {"aggregate_GBs", r.outcome.aggregate.count() / 1e9},
                 {"time_us", r.outcome.time.us()},
                 {"limit", r.outcome.limit}});
}

std::string render_collective(const CollectiveReport& r) {
  std::string out =
      wrapped(fmt::format("{} of {} GPUs on {}{}", name(r.op), r.gpus, r.machine.name,
                          r.build.empty() ? "" : ", kernels as " + r.build + " chooses them"),
              0);
  out += "\n";
  Table table({"size(B)", "count", "type", "redop", "time(us)", "algbw(GB/s)", "busbw(GB/s)",
               "eager(us)", "by"},
              0);
  table.left(8);
  const double factor = bus_factor(r.op, r.gpus);
  for (const auto& row : r.rows)
    table.row({fmt::format("{:>10}", row.size.count()),
               fmt::format("{}", count_of(r.op, row.size, r.gpus)), "half",
               std::string(reduction(r.op)), micros(row.price.time),
               fmt::format("{:.2f}", algbw(row)), fmt::format("{:.2f}", algbw(row) * factor),
               micros(row.eager), how(row.price)});
  out += table.text() + "\n";
  Table takes({"sizes", "takes", "waits for"}, 2);
  takes.left(1).left(2);
  for_runs(r, taken, [&](std::size_t first, std::size_t last) {
    const auto [what, limit] = taken(r.rows[first].price);
    takes.row({sizes_text(r, first, last), what, limit});
  });
  out += takes.text() + "\n";
  const auto basis = [](const CollectivePrice& p) { return basis_text(p, 1); };
  for_runs(r, basis, [&](std::size_t first, std::size_t last) {
    double spread = 1;
    for (std::size_t i = first; i <= last; ++i) spread = std::max(spread, r.rows[i].price.spread);
    out += wrapped(
        fmt::format("{}: {}", sizes_text(r, first, last), basis_text(r.rows[first].price, spread)),
        2, 98);
  });
  out += "\n" +
         wrapped(
             "time: on the GPU, from a graph or back to back. eager: a call from a host without "
             "CUDA graphs, two ops a call (assumed: at least 30 us by NCCL, 20 us by a kernel of "
             "the engine).",
             0, 98);
  const bool staged = std::any_of(r.rows.begin(), r.rows.end(), [](const auto& row) {
    return row.price.transport == Transport::shm;
  });
  const std::string again = fmt::format(" --collective {}", name(r.op));
  std::string next = r.named;
  if (staged && !r.machine.interconnect.p2p_capable)
    next += " --edit p2p=on" + again;
  else if (!r.others.empty())
    next += again + " --kernel " + (r.kernel == "nccl" ? r.others.front() : "nccl");
  return out + fmt::format("\nnext   ceiling topology {}\n", next);
}

std::string collective_to_json(const CollectiveReport& r) {
  Json rows = Json::array();
  const double factor = bus_factor(r.op, r.gpus);
  for (const auto& row : r.rows) {
    const CollectivePrice& p = row.price;
    rows.push_back({{"op", name(r.op)},
                    {"gpus", r.gpus},
                    {"size_bytes", row.size.count()},
                    {"time_us", p.time.us()},
                    {"algbw_GBs", algbw(row)},
                    {"busbw_GBs", algbw(row) * factor},
                    {"eager_us", row.eager.us()},
                    {"kernel", p.kernel},
                    {"algorithm", p.algorithm},
                    {"protocol", name(p.protocol)},
                    {"transport", name(p.transport)},
                    {"channels", p.channels},
                    {"limit", p.limit},
                    {"provenance", name(p.provenance)},
                    {"spread", p.spread},
                    {"anchor", p.anchor}});
  }
  return dumped({{"schema", 1},
                 {"machine", r.machine.id},
                 {"build", r.build.empty() ? Json() : Json(r.build)},
                 {"eager_provenance", name(Provenance::assumed)},
                 {"rows", rows}});
}
