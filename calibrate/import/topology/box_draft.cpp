#include "calibrate/import/topology/box_draft.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "calibrate/import/topology/text_scan.hpp"
#include "sim/base/table_text.hpp"

namespace {

using Kind = PciNode::Kind;

// What holds on every bare-metal box (local-inference-lab/rtx6kpro @e2c2b957, hardware/*.md, read
// 2026-08): copies get 53.4 GB/s of the 63 GB/s of a Gen5 x16 port, 53 to 56.6 over boxes.
constexpr double sustained = 53.4 / 63.0;
constexpr double port_spread = 1.06;
// Parts of the 0.72 us between cards of a switch and the 1.06 us over two root ports, 1.07 over two
// host bridges, measured there. They only choose routes.
constexpr double port_ns = 360, inside_ns = 170, bridge_ns = 5, socket_ns = 300, memory_ns = 100;
// Assumed: below every way over PCIe, so that NVLink is taken where it is.
constexpr double nvlink_ns = 100;
// Inside a chip, so high that it never limits.
constexpr double inside_gbps = 10000;
// Three xGMI links between two sockets, 192 to 256 GB/s stated; two links get 96 (same source).
constexpr double socket_gbps = 192, socket_spread = 2;
// Eight pinned copies to host memory together, measured on one Threadripper PRO (same source). A
// guest's is unknown: 27.5 was fitted on one, with 5.4 to 28 on other slow hosts.
constexpr double memory_gbps = 113, memory_spread = 1.5, guest_memory_gbps = 27.5,
                 guest_memory_spread = 2;

// GB/s of the wires one way: 8b/10b in Gen1 and 2, 128b/130b to Gen5, 242 of 256 bytes in Gen6
// (PCI Express base specification).
double line_gbps(int gen, int lanes) {
  constexpr std::array per_lane = {0.0,
                                   2.5 / 8 * 0.8,
                                   5.0 / 8 * 0.8,
                                   8.0 / 8 / 1.015625,
                                   16.0 / 8 / 1.015625,
                                   32.0 / 8 / 1.015625,
                                   64.0 / 8 * 242 / 256};
  return per_lane[static_cast<std::size_t>(gen)] * lanes;
}

// NVLink one way per link: 25 GB/s from Volta to Hopper, 50 GB/s on Blackwell (NVIDIA, NVLink).
double nvlink_gbps(const GpuSpec& gpu) { return gpu.compute_capability >= 10.0 ? 50 : 25; }
// The most links a GPU has (H100, B200: 18): more would have to be shared through a switch.
constexpr int nvlinks_max = 18;

// The PCIe slot of a card whose files do not tell: Gen5 from Hopper on, Gen4 before.
int assumed_gen(const GpuSpec& gpu) { return gpu.compute_capability >= 9.0 ? 5 : 4; }

std::string file_name(const std::string& path) {
  return printable(path.substr(path.find_last_of('/') + 1));
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

std::string span(std::vector<double> v, const char* unit) {
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return *low == *high ? fmt::format("{:.4g} {}", *low, unit)
                       : fmt::format("{:.4g} to {:.4g} {}", *low, *high, unit);
}

// Groups of indices that a relation joins, each named by its least member.
template <class Joined>
std::vector<int> groups(int n, Joined joined) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j)
      if (joined(i, j)) {
        const int from = out[static_cast<std::size_t>(i)], to = out[static_cast<std::size_t>(j)];
        for (int& g : out)
          if (g == std::max(from, to)) g = std::min(from, to);
      }
  return out;
}

class Drafter {
 public:
  Drafter(const std::vector<TopologyFacts>& files, const GpuSpec& gpu) : files_(files), gpu_(gpu) {}

  Expected<BoxDraft> draft() {
    for (const auto& f : files_) {
      out_.read.push_back(fmt::format("{}: {}", file_name(f.path), f.form));
      for (const auto& note : f.notes) out_.notes.push_back(note);
      for (const auto& sign : f.guest) guest_signs_.push_back(sign);
      if (f.classes && !classes_) classes_ = &*f.classes, classes_file_ = f.path;
      if (f.pairs && !pairs_) pairs_ = &*f.pairs, pairs_file_ = f.path;
    }
    out_.guest = !guest_signs_.empty();
    if (!pick_tree()) return tl::unexpected(errors_);
    check_counts();
    if (!errors_.empty()) return tl::unexpected(errors_);
    order_pairs();
    if (!errors_.empty()) return tl::unexpected(errors_);
    compare_classes();
    decide_p2p();
    build_devices();
    build_nvlinks();
    apply_bandwidths();
    apply_latencies();
    note_unknown();
    return std::move(out_);
  }

 private:
  Location whole(const std::string& path) const { return table_place(path, 0, 0, {}); }
  PciNode& node(int i) { return tree_.nodes[static_cast<std::size_t>(i)]; }
  const PciNode& node(int i) const { return tree_.nodes[static_cast<std::size_t>(i)]; }
  PathClass cell(int i, int j) const {
    return classes_->cells[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  // ---- the tree ----

  bool pick_tree() {
    const TopologyFacts *listing = nullptr, *dump = nullptr;
    for (const auto& f : files_) {
      if (!f.tree) continue;
      const TopologyFacts*& slot = f.tree->shows_host_bridges ? listing : dump;
      if (slot)
        errors_.error(whole(f.path), fmt::format("'{}' is a second {}", f.path, f.form),
                      "give the files of one box, each form once");
      else
        slot = &f;
    }
    if (!errors_.empty()) return false;
    if (listing || dump) {
      const auto& from = listing ? *listing : *dump;
      tree_ = *from.tree;
      tree_file_ = from.path;
      if (listing && dump) take_numa(*dump);
      if (!listing) split_bridges();
    } else if (classes_) {
      if (!tree_from_classes()) return false;
      tree_file_ = classes_file_;
    } else {
      errors_.error(files_.empty() ? Location() : whole(files_[0].path),
                    "no file says how the GPUs are connected",
                    "add NCCL_TOPO_DUMP_FILE's XML, sudo lspci -vv, or nvidia-smi topo -m");
      return false;
    }
    gpus_ = tree_.gpus();
    return true;
  }

  // NUMA nodes of the dump for GPUs that the listing does not place; its GPUs must be the
  // listing's.
  void take_numa(const TopologyFacts& dump) {
    std::map<std::string, int> known;
    for (const int g : tree_.gpus()) known[node(g).bus_id] = g;
    std::size_t shared = 0;
    const auto theirs = dump.tree->gpus();
    for (const int g : theirs) {
      const auto& other = dump.tree->nodes[static_cast<std::size_t>(g)];
      const auto it = known.find(other.bus_id);
      if (it == known.end()) {
        errors_.error(
            whole(dump.path),
            fmt::format("GPU {} of '{}' is not in '{}'", other.bus_id, dump.path, tree_file_),
            "give the files of one box");
        continue;
      }
      ++shared;
      if (!node(it->second).numa) node(it->second).numa = other.numa;
    }
    if (shared < known.size())
      note(fmt::format("{} has {} of {} GPUs: a dump holds those of its job only",
                       file_name(dump.path), shared, known.size()));
  }

  // NCCL's dump joins the host bridges of a NUMA node; topo -m tells PHB from NODE.
  void split_bridges() {
    const auto gpus = tree_.gpus();
    if (!classes_ || classes_->cells.size() != gpus.size()) return;
    const auto group = groups(static_cast<int>(gpus.size()), [&](int i, int j) {
      return cell(i, j) <= PathClass::phb && cell(i, j) != PathClass::nvlink;
    });
    // Ports of one bridge whose GPUs are all NODE apart from the rest get a bridge of their own.
    std::map<std::pair<int, int>, int> fresh;
    std::vector<int> first_group(tree_.nodes.size(), -1);
    std::vector<PciNode> added;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      int port = gpus[i];
      while (node(port).kind != Kind::root_port) port = node(port).parent;
      const int bridge = node(port).parent;
      if (bridge >= static_cast<int>(first_group.size())) continue;  // moved already
      int& first = first_group[static_cast<std::size_t>(bridge)];
      if (first < 0) first = group[i];
      if (first == group[i]) continue;
      bool nvlinked = false;  // NV# hides the class of PCIe
      for (std::size_t j = 0; j < gpus.size(); ++j)
        nvlinked |= cell(static_cast<int>(i), static_cast<int>(j)) == PathClass::nvlink;
      if (nvlinked) continue;
      const auto key = std::pair(bridge, group[i]);
      if (!fresh.count(key)) {
        fresh[key] = static_cast<int>(tree_.nodes.size());
        tree_.nodes.push_back(node(bridge));
      }
      node(port).parent = fresh[key];
    }
  }

  // Groups by class: a tree makes each class an equivalence.
  bool tree_from_classes() {
    const int n = static_cast<int>(classes_->cells.size());
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        for (int k = 0; k < n; ++k) {
          if (i == j || j == k || i >= k) continue;
          const auto ij = cell(i, j), jk = cell(j, k), ik = cell(i, k);
          if (ij == PathClass::nvlink || jk == PathClass::nvlink || ik == PathClass::nvlink)
            continue;
          if (ik > std::max(ij, jk) && errors_.empty())
            errors_.error(whole(classes_file_),
                          fmt::format("GPU{} is {} from GPU{} and {} from GPU{}, yet GPU{} and "
                                      "GPU{} are {} apart",
                                      j, name(ij), i, name(jk), k, i, k, name(ik)),
                          "no tree gives these classes: add NCCL's XML or lspci -vv");
        }
    if (!errors_.empty()) return false;
    const auto upto = [&](PathClass c) {
      return groups(
          n, [&, c](int i, int j) { return cell(i, j) <= c && cell(i, j) != PathClass::nvlink; });
    };
    const auto pix = upto(PathClass::pix), pxb = upto(PathClass::pxb), phb = upto(PathClass::phb);
    auto numa = upto(PathClass::node);
    for (int i = 0; i < n; ++i)  // NV# hides it, the affinity may tell
      for (int j = 0; j < i; ++j) {
        const auto &a = classes_->numa[static_cast<std::size_t>(i)],
                   &b = classes_->numa[static_cast<std::size_t>(j)];
        if (a && b && *a == *b && cell(i, j) == PathClass::nvlink) {
          const int from = numa[static_cast<std::size_t>(i)],
                    to = numa[static_cast<std::size_t>(j)];
          for (int& g : numa)
            if (g == std::max(from, to)) g = std::min(from, to);
        }
      }
    const auto size_of = [&](const std::vector<int>& group, int g) {
      return std::count(group.begin(), group.end(), g);
    };
    tree_ = {};
    std::map<int, int> bridges, tops, switches, nodes;
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!nodes.count(numa[at])) nodes.emplace(numa[at], static_cast<int>(nodes.size()));
      if (!bridges.count(phb[at])) {
        PciNode bridge;
        bridge.kind = Kind::host_bridge;
        bridge.numa = classes_->numa[at] ? *classes_->numa[at] : nodes[numa[at]];
        bridges[phb[at]] = add(bridge);
      }
      int parent = bridges[phb[at]];
      const bool shared = size_of(pxb, pxb[at]) > 1;
      if (!shared || !tops.count(pxb[at])) {
        PciNode port;
        port.kind = Kind::root_port;
        port.parent = parent;
        parent = add(port);
        if (shared) tops[pxb[at]] = parent;
        // Several switches below one another: a root switch with leaves.
        if (shared && size_of(pix, pix[at]) < size_of(pxb, pxb[at])) {
          PciNode root;
          root.kind = Kind::pcie_switch;
          root.parent = parent;
          tops[pxb[at]] = add(root);
        }
      }
      if (shared) {
        parent = tops[pxb[at]];
        if (size_of(pix, pix[at]) > 1) {
          if (!switches.count(pix[at])) {
            PciNode leaf;
            leaf.kind = Kind::pcie_switch;
            leaf.parent = parent;
            switches[pix[at]] = add(leaf);
          }
          parent = switches[pix[at]];
        } else if (node(parent).kind == Kind::pcie_switch) {
          PciNode leaf;  // a lone card PXB from others sits behind a switch of its own
          leaf.kind = Kind::pcie_switch;
          leaf.parent = parent;
          parent = add(leaf);
        }
      }
      PciNode card;
      card.parent = parent;
      card.numa = node(bridges[phb[at]]).numa;
      card.bus_id = fmt::format("{:06}", i);  // keeps the order; nobody prints it
      add(card);
    }
    tree_.shows_host_bridges = true;
    return true;
  }

  int add(PciNode n) {
    tree_.nodes.push_back(std::move(n));
    return static_cast<int>(tree_.nodes.size()) - 1;
  }

  void check_counts() {
    const auto n = gpus_.size();
    const auto differs = [&](const std::string& path, std::size_t has) {
      if (has != n)
        errors_.error(whole(path),
                      fmt::format("'{}' has {} GPUs, '{}' has {}", path, has, tree_file_, n),
                      "give the files of one box, taken with all its GPUs visible");
    };
    if (n > static_cast<std::size_t>(box_gpus_max))
      errors_.error(whole(tree_file_), fmt::format("'{}' has {} GPUs", tree_file_, n),
                    fmt::format("no box has more than {}", box_gpus_max));
    for (const auto& f : files_) {
      if (f.classes) differs(f.path, f.classes->cells.size());
      for (const auto& p : f.p2p) differs(f.path, p.size());
      if (f.pairs) differs(f.path, count(*f.pairs));
      if (f.pairs && pairs_ != &*f.pairs)
        errors_.error(whole(f.path), fmt::format("'{}' is a second run of {}", f.path, f.form),
                      "give one");
    }
  }
  static std::size_t count(const PairTimes& p) {
    return std::max({p.one_way_on.size(), p.one_way_off.size(), p.both_ways_on.size(),
                     p.both_ways_off.size(), p.latency_on.size(), p.latency_off.size(),
                     p.can_access.size()});
  }

  // CUDA's order of devices is not always that of the bus.
  void order_pairs() {
    const auto n = gpus_.size();
    place_.resize(n);
    std::iota(place_.begin(), place_.end(), 0);
    if (!pairs_ || pairs_->bus_ids.size() != n || node(gpus_[0]).bus_id.size() < 12) return;
    bool moved = false;
    for (std::size_t i = 0; i < n; ++i) {
      const auto it =
          std::find(pairs_->bus_ids.begin(), pairs_->bus_ids.end(), node(gpus_[i]).bus_id);
      if (it == pairs_->bus_ids.end()) {
        errors_.error(whole(pairs_file_),
                      fmt::format("GPU {} of '{}' is not in '{}'", node(gpus_[i]).bus_id,
                                  tree_file_, pairs_file_),
                      "give the files of one box");
        continue;
      }
      place_[i] = static_cast<std::size_t>(it - pairs_->bus_ids.begin());
      moved |= place_[i] != i;
    }
    if (moved)
      note(fmt::format("{} counts GPUs in another order; matched by bus id",
                       file_name(pairs_file_)));
  }

  double timed(const Numbers& m, int i, int j) const {
    return m[place_[static_cast<std::size_t>(i)]][place_[static_cast<std::size_t>(j)]];
  }

  // ---- classes of the tree ----

  std::vector<int> way_up(int gpu) const {
    std::vector<int> out;
    for (int at = node(gpu).parent; at >= 0; at = node(at).parent) out.push_back(at);
    return out;
  }

  PathClass tree_class(int i, int j) const {
    const auto a = way_up(gpus_[static_cast<std::size_t>(i)]),
               b = way_up(gpus_[static_cast<std::size_t>(j)]);
    for (std::size_t up = 0; up < a.size(); ++up) {
      const auto it = std::find(b.begin(), b.end(), a[up]);
      if (it == b.end()) continue;
      const auto kind = node(a[up]).kind;
      if (kind == Kind::host_bridge || kind == Kind::root_port) return PathClass::phb;
      return up == 0 && it == b.begin() ? PathClass::pix : PathClass::pxb;
    }
    return numa_of(a.back()) == numa_of(b.back()) ? PathClass::node : PathClass::sys;
  }

  int numa_of(int bridge) const { return node(bridge).numa.value_or(0); }

  // Fills in the NUMA nodes of host bridges, then compares with topo -m.
  void compare_classes() {
    const int n = static_cast<int>(gpus_.size());
    bool known = false;
    for (int i = 0; i < n; ++i) {
      const int gpu = gpus_[static_cast<std::size_t>(i)];
      auto& bridge = node(way_up(gpu).back());
      if (!bridge.numa) bridge.numa = node(gpu).numa;
      if (!bridge.numa && classes_) bridge.numa = classes_->numa[static_cast<std::size_t>(i)];
      known |= bridge.numa.has_value();
    }
    if (!known && classes_) {
      std::map<int, int> named;
      const auto group = groups(n, [&](int i, int j) { return cell(i, j) <= PathClass::node; });
      for (int i = 0; i < n; ++i) {
        const int g = group[static_cast<std::size_t>(i)];
        if (!named.count(g)) named.emplace(g, static_cast<int>(named.size()));
        node(way_up(gpus_[static_cast<std::size_t>(i)]).back()).numa = named[g];
      }
    } else if (!known && n > 1) {
      note("the NUMA nodes of the GPUs: taken as one");
    }
    if (!classes_) return;
    int differing = 0;
    std::string first;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j) {
        if (cell(i, j) == PathClass::nvlink || cell(i, j) == tree_class(i, j)) continue;
        if (differing++ == 0)
          first = fmt::format("gpu{} to gpu{} is {} there and {} in the tree", j, i,
                              name(cell(i, j)), name(tree_class(i, j)));
      }
    if (differing > 0)
      note(fmt::format("{} differs from the tree in {} pair{} ({}); the tree is kept",
                       file_name(classes_file_), differing, differing == 1 ? "" : "s", first));
  }

  // ---- peer access ----

  void decide_p2p() {
    const int n = static_cast<int>(gpus_.size());
    int unknown = 0, staged = 0, faster = 0;
    std::vector<std::vector<std::optional<bool>>> said(
        static_cast<std::size_t>(n), std::vector<std::optional<bool>>(static_cast<std::size_t>(n)));
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j) {
        auto driver = says_driver(i, j);
        const auto timing = says_timing(i, j);
        if (driver && timing && *driver != *timing) ++(*driver ? staged : faster);
        auto& pair = said[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        pair = timing ? timing : driver;
        if (!pair && nvlinked(i, j)) pair = true;
        unknown += !pair;
        if (pair.value_or(false))
          out_.p2p = true;
        else
          out_.p2p_off.emplace_back(j, i);
      }
    p2p_ = said;
    std::sort(out_.p2p_off.begin(), out_.p2p_off.end());
    if (staged > 0)
      note(
          fmt::format("the driver allows peer access in {} pair{} whose copies are no different "
                      "with it: staged through the host, taken as off",
                      staged, staged == 1 ? "" : "s"));
    if (faster > 0)
      note(
          fmt::format("the driver denies peer access in {} pair{} whose copies change with it: "
                      "taken as on",
                      faster, faster == 1 ? "" : "s"));
    if (unknown > 0)
      note(
          fmt::format("whether GPUs reach each other (P2P): taken as off in {} pair{}; "
                      "nvidia-smi topo -p2p r and -p2p w tell",
                      unknown, unknown == 1 ? "" : "s"));
  }

  // Reads and writes, both ways, in every matrix there is.
  std::optional<bool> says_driver(int i, int j) const {
    std::optional<bool> out;
    const auto take = [&](const P2pMatrix& m, std::size_t a, std::size_t b) {
      for (const auto& said : {m[a][b], m[b][a]})
        if (said) out = out.value_or(true) && *said;
    };
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    for (const auto& f : files_)
      for (const auto& m : f.p2p) take(m, a, b);
    if (!out && pairs_ && !pairs_->can_access.empty())
      take(pairs_->can_access, place_[a], place_[b]);
    return out;
  }

  // With peer access a copy starts in 0.4 us instead of 14 (local-inference-lab/rtx6kpro @e2c2b957,
  // hardware/pcie-bandwidth.md); where it makes no difference it is not used. A fifth is beyond
  // what repeated runs differ by.
  std::optional<bool> says_timing(int i, int j) const {
    if (!pairs_) return {};
    if (!pairs_->latency_on.empty() && !pairs_->latency_off.empty()) {
      const auto ratio = (timed(pairs_->latency_on, i, j) + timed(pairs_->latency_on, j, i)) /
                         (timed(pairs_->latency_off, i, j) + timed(pairs_->latency_off, j, i));
      return ratio < 0.5;
    }
    if (!pairs_->one_way_on.empty() && !pairs_->one_way_off.empty()) {
      const auto ratio = (timed(pairs_->one_way_on, i, j) + timed(pairs_->one_way_on, j, i)) /
                         (timed(pairs_->one_way_off, i, j) + timed(pairs_->one_way_off, j, i));
      return ratio > 1.2 || ratio < 1 / 1.2;
    }
    return {};
  }

  bool nvlinked(int i, int j) const {
    if (classes_ && cell(i, j) == PathClass::nvlink) return true;
    const auto &a = node(gpus_[static_cast<std::size_t>(i)]).bus_id,
               &b = node(gpus_[static_cast<std::size_t>(j)]).bus_id;
    bool a_switched = false, b_switched = false;
    for (const auto& f : files_)
      for (const auto& l : f.nvlinks) {
        if ((l.gpu == a && l.target == b) || (l.gpu == b && l.target == a)) return true;
        a_switched |= l.gpu == a && !is_gpu(l.target);
        b_switched |= l.gpu == b && !is_gpu(l.target);
      }
    return a_switched && b_switched;
  }
  bool is_gpu(const std::string& id) const {
    return std::any_of(gpus_.begin(), gpus_.end(), [&](int g) { return node(g).bus_id == id; });
  }

  bool peer(int i, int j) const {
    return p2p_[static_cast<std::size_t>(std::max(i, j))][static_cast<std::size_t>(std::min(i, j))]
        .value_or(false);
  }

  // ---- devices and links ----

  int device(std::string name, DeviceKind kind, bool acs = false) {
    Device d;
    d.name = std::move(name);
    d.kind = kind;
    d.acs_redirect = acs;
    out_.devices.push_back(std::move(d));
    return static_cast<int>(out_.devices.size()) - 1;
  }

  DraftLink& link(int a, int b, const char* kind, double gbps, double ns,
                  Provenance basis = Provenance::assumed, double spread = 1) {
    DraftLink l;
    l.a = a, l.b = b, l.kind = kind, l.gbps = gbps, l.latency_ns = ns, l.basis = basis;
    l.spread = spread;
    out_.links.push_back(l);
    return out_.links.back();
  }

  // Only what leads to a GPU is kept.
  void build_devices() {
    const int n = static_cast<int>(gpus_.size());
    std::vector<char> used(tree_.nodes.size());
    std::vector<int> order;  // by first GPU
    for (int i = 0; i < n; ++i) {
      for (const int up : way_up(gpus_[static_cast<std::size_t>(i)]))
        if (!used[static_cast<std::size_t>(up)])
          used[static_cast<std::size_t>(up)] = 1, order.push_back(up);
      at_[gpus_[static_cast<std::size_t>(i)]] = device(fmt::format("gpu{}", i), DeviceKind::gpu);
    }
    const auto name_all = [&](Kind kind, const char* stem, DeviceKind as) {
      int number = 0;
      for (const int i : order)
        if (node(i).kind == kind)
          at_[i] = device(fmt::format("{}{}", stem, number++), as, node(i).acs_redirect);
    };
    name_all(Kind::pcie_switch, "switch", DeviceKind::pcie_switch);
    name_all(Kind::root_port, out_.guest ? "vroot" : "root", DeviceKind::root_port);
    name_all(Kind::host_bridge, "socket", DeviceKind::root_complex);
    std::map<int, std::vector<int>> bridges;  // by NUMA node
    for (const int i : order)
      if (node(i).kind == Kind::host_bridge) bridges[numa_of(i)].push_back(at_[i]);

    for (const int g : gpus_) pcie_link(g);
    for (const int i : order)
      if (node(i).kind == Kind::pcie_switch) pcie_link(i);
    for (const int i : order)
      if (node(i).kind == Kind::root_port)
        link(at_[i], at_[node(i).parent], "internal", inside_gbps, inside_ns);

    std::vector<int> centres, numbers;
    for (const auto& [numa, members] : bridges) {
      int centre = members[0];
      if (members.size() > 1) {
        centre = device(fmt::format("numa{}", centres.size()), DeviceKind::numa_node);
        for (const int b : members) link(b, centre, "internal", inside_gbps, bridge_ns);
      }
      centres.push_back(centre);
    }
    for (std::size_t i = 0; i < centres.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        link(centres[j], centres[i], "interconnect", socket_gbps, socket_ns, Provenance::assumed,
             socket_spread);
    for (std::size_t i = 0; i < centres.size(); ++i) {
      const int memory = device(fmt::format("memory{}", i), DeviceKind::host_memory);
      link(centres[i], memory, "memory", out_.guest ? guest_memory_gbps : memory_gbps, memory_ns,
           Provenance::assumed, out_.guest ? guest_memory_spread : memory_spread);
    }
    numa_count_ = centres.size();
  }

  // The link of a card or a switch to what it is plugged into.
  void pcie_link(int i) {
    const auto& from = node(i);
    const bool known = from.gen > 0 && from.lanes > 0;
    const int gen = out_.guest && from.card_gen > 0 ? from.card_gen
                    : known && !out_.guest          ? from.gen
                                                    : std::max(assumed_gen(gpu_), from.gen);
    const int lanes = known ? from.lanes : 16;
    unknown_speeds_ += !known;
    auto& l = link(at_[i], at_[from.parent], "pcie", line_gbps(gen, lanes) * sustained, port_ns,
                   Provenance::assumed, known && !out_.guest ? port_spread : 2);
    // On bare metal the operating system reports what is there; of a guest's ports nobody knows.
    l.gen = known || out_.guest ? from.gen : gen;
    l.lanes = known || out_.guest ? from.lanes : lanes;
  }

  void build_nvlinks() {
    const int n = static_cast<int>(gpus_.size());
    std::vector<int> switched(static_cast<std::size_t>(n));
    std::map<std::pair<int, int>, int> direct;
    for (const auto& f : files_)
      for (const auto& l : f.nvlinks) {
        const auto index = [&](const std::string& id) {
          for (int i = 0; i < n; ++i)
            if (node(gpus_[static_cast<std::size_t>(i)]).bus_id == id) return i;
          return -1;
        };
        const int from = index(l.gpu), to = l.target.empty() ? -1 : index(l.target);
        if (from < 0) continue;
        if (to < 0)
          switched[static_cast<std::size_t>(from)] += l.count;
        else if (from < to)
          direct[{from, to}] += l.count;
      }
    const bool dumped = !direct.empty() || *std::max_element(switched.begin(), switched.end()) > 0;
    if (!dumped && classes_) {
      const auto& links = classes_->nvlinks;
      for (int i = 0; i < n; ++i) {
        const auto& row = links[static_cast<std::size_t>(i)];
        // NV18 between all pairs are the same 18 links of a GPU, through switches.
        if (std::accumulate(row.begin(), row.end(), 0) > nvlinks_max)
          switched[static_cast<std::size_t>(i)] = *std::max_element(row.begin(), row.end());
        else
          for (int j = i + 1; j < n; ++j)
            if (row[static_cast<std::size_t>(j)] > 0)
              direct[{i, j}] = row[static_cast<std::size_t>(j)];
      }
    }
    const double each = nvlink_gbps(gpu_);
    if (*std::max_element(switched.begin(), switched.end()) > 0) {
      const int nvswitch = device("nvswitch", DeviceKind::nvlink_switch);
      for (int i = 0; i < n; ++i)
        if (const int count = switched[static_cast<std::size_t>(i)]; count > 0)
          link(i, nvswitch, "nvlink", count * each, nvlink_ns, Provenance::stated);
    }
    for (const auto& [pair, count] : direct)
      link(pair.first, pair.second, "nvlink", count * each, nvlink_ns, Provenance::stated);
  }

  // ---- measured ----

  void measured_as(DraftLink& l, double gbps) {
    l.gbps = gbps;
    l.basis = Provenance::measured;
    l.spread = 1;
    l.source = file_name(pairs_file_);
  }

  // A port carries what its best pair gets; an uplink what the best pair across it gets. One pair
  // at a time says nothing of what many get together, so links between sockets keep theirs.
  void apply_bandwidths() {
    if (!pairs_) return;
    const int n = static_cast<int>(gpus_.size());
    const auto& on = pairs_->one_way_on;
    std::map<PathClass, std::vector<double>> seen, both, staged, latency;
    std::vector<double> port(static_cast<std::size_t>(n)), far(static_cast<std::size_t>(n)),
        nvlink(static_cast<std::size_t>(n)), duplex(static_cast<std::size_t>(n));
    std::map<int, double> uplink;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        if (i == j) continue;
        const bool nv = nvlinked(i, j);
        const auto kind = nv ? PathClass::nvlink : tree_class(i, j);
        if (!pairs_->one_way_off.empty()) staged[kind].push_back(timed(pairs_->one_way_off, i, j));
        if (!peer(i, j)) continue;
        if (!pairs_->latency_on.empty()) latency[kind].push_back(timed(pairs_->latency_on, i, j));
        if (!pairs_->both_ways_on.empty()) {
          const double gbps = timed(pairs_->both_ways_on, i, j);
          both[kind].push_back(gbps);
          if (!nv && kind != PathClass::sys)
            for (const int end : {i, j})
              duplex[static_cast<std::size_t>(end)] =
                  std::max(duplex[static_cast<std::size_t>(end)], gbps);
        }
        if (on.empty()) continue;
        const double gbps = timed(on, i, j);
        seen[kind].push_back(gbps);
        auto& best = nv ? nvlink : kind == PathClass::sys ? far : port;
        for (const int end : {i, j})
          best[static_cast<std::size_t>(end)] = std::max(best[static_cast<std::size_t>(end)], gbps);
        if (nv || kind == PathClass::sys) continue;
        const auto a = way_up(gpus_[static_cast<std::size_t>(i)]),
                   b = way_up(gpus_[static_cast<std::size_t>(j)]);
        for (const auto* side : {&a, &b}) {
          const auto& other = side == &a ? b : a;
          for (const int up : *side) {
            if (std::find(other.begin(), other.end(), up) != other.end()) break;  // they meet
            if (node(up).kind == Kind::pcie_switch)
              uplink[at_[up]] = std::max(uplink[at_[up]], gbps);
          }
        }
      }
    for (auto& l : out_.links) {
      const auto a = static_cast<std::size_t>(l.a);
      if (l.kind == "nvlink" && l.b < n) {
        if (!on.empty() && peer(l.a, l.b))
          measured_as(l, std::max(timed(on, l.a, l.b), timed(on, l.b, l.a)));
      } else if (l.kind == "nvlink") {
        if (nvlink[a] > 0) measured_as(l, nvlink[a]);
      } else if (l.kind == "pcie" && l.a < n) {
        const double best = port[a] > 0 ? port[a] : far[a];
        if (best > 0) measured_as(l, best);
        // Less than one way alone is noise, or another state of the box.
        if (duplex[a] >= l.gbps) l.duplex_gbps = duplex[a];
      } else if (l.kind == "pcie") {
        if (const auto it = uplink.find(l.a); it != uplink.end()) measured_as(l, it->second);
      }
    }
    const auto say = [&](const char* what, const auto& kinds, const char* unit) {
      for (const auto& [kind, values] : kinds)
        out_.measured.push_back(fmt::format("{} {}: {}", name(kind), what, span(values, unit)));
    };
    say("pairs one way", seen, "GB/s");
    say("pairs both ways together", both, "GB/s");
    say("pairs, a copy's latency", latency, "us");
    if (!staged.empty()) {
      say("pairs without peer access (staged)", staged, "GB/s");
      note("what all GPUs get together through host memory: staged pairs were timed one at a time");
    }
    if (seen.count(PathClass::sys))
      note(
          "what many pairs get together between NUMA nodes: the link keeps its assumed bandwidth, "
          "pairs were timed one at a time");
  }

  // All PCIe latencies by one factor, so that pairs of one NUMA node get what was timed in the
  // middle; what pairs across nodes take beyond that is the link between the nodes.
  void apply_latencies() {
    if (!pairs_ || pairs_->latency_on.empty()) return;
    const int n = static_cast<int>(gpus_.size());
    std::vector<double> ratios, far;
    const auto assumed = [&](int i, int j) {
      const auto a = way_up(gpus_[static_cast<std::size_t>(i)]),
                 b = way_up(gpus_[static_cast<std::size_t>(j)]);
      double ns = 0;
      for (const auto* side : {&a, &b}) {
        const auto& other = side == &a ? b : a;
        ns += port_ns;
        for (const int up : *side) {
          if (std::find(other.begin(), other.end(), up) != other.end()) break;
          const auto kind = node(up).kind;
          if (kind == Kind::pcie_switch) ns += port_ns;
          if (kind == Kind::root_port) ns += inside_ns;
        }
      }
      return ns;
    };
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        if (i != j && peer(i, j) && !nvlinked(i, j) && tree_class(i, j) != PathClass::sys)
          ratios.push_back(timed(pairs_->latency_on, i, j) * 1000 / assumed(i, j));
    if (ratios.empty()) return;
    const double factor = median(ratios);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        if (i != j && peer(i, j) && !nvlinked(i, j) && tree_class(i, j) == PathClass::sys)
          far.push_back(
              std::max(1.0, timed(pairs_->latency_on, i, j) * 1000 - assumed(i, j) * factor));
    for (auto& l : out_.links) {
      if (l.kind == "interconnect" && !far.empty()) l.latency_ns = median(far);
      if (l.kind == "pcie" || l.kind == "internal") l.latency_ns *= factor;
    }
  }

  // ---- what nobody said ----

  void note_unknown() {
    const auto n = gpus_.size();
    if (out_.guest) {
      std::string signs;
      for (std::size_t i = 0; i < guest_signs_.size() && i < 2; ++i)
        signs += (i ? "; " : "") + guest_signs_[i];
      note(
          fmt::format("the real tree: this is a guest ({}), and its tree is the hypervisor's. "
                      "Cards that share a switch or a socket are not to be seen",
                      signs));
      note("link speeds: a guest's ports report their own, not the board's");
      note(
          "staging through guest memory: never timed, its bandwidth is the weakest number here; "
          "time an all-reduce of 4 KiB and of 64 KiB");
    } else if (classes_ && n > 2 && numa_count_ == 1 && all(PathClass::phb)) {
      note(
          "whether this is a guest: all GPUs are PHB apart, as virtual machines show them; if so, "
          "set runs_in: kvm_guest and host: kvm-guest");
    }
    if (unknown_speeds_ > 0 && !out_.guest)
      note(fmt::format("the speed of {} PCIe link{}: taken as Gen{} x16", unknown_speeds_,
                       unknown_speeds_ == 1 ? "" : "s", assumed_gen(gpu_)));
    const bool listed = std::any_of(files_.begin(), files_.end(), [](const auto& f) {
      return f.tree && f.tree->shows_host_bridges;
    });
    const bool switches = std::any_of(out_.devices.begin(), out_.devices.end(), [](const auto& d) {
      return d.kind == DeviceKind::pcie_switch;
    });
    if (!listed && switches)
      note("whether the switches redirect peer traffic (ACS): taken as off; sudo lspci -vv tells");
    if (!listed && tree_file_ != classes_file_ && !classes_ && n > 1)
      note(
          "which root ports share a host bridge: taken as one a NUMA node; nvidia-smi topo -m "
          "tells");
    if (tree_file_ == classes_file_ && n > 1)
      note("how switches are cascaded and what they are: topo -m gives distances, not the tree");
    if (numa_count_ > 1)
      note(
          fmt::format("the link between NUMA nodes: {} GB/s one way assumed; nodes of one socket "
                      "look the same as sockets",
                      socket_gbps));
    note(fmt::format("host memory: {} GB/s each way assumed, never timed here",
                     out_.guest ? guest_memory_gbps : memory_gbps));
    note(
        "host costs (launches, request path), the NCCL version and the memory that drivers take: "
        "assumed");
  }
  bool all(PathClass c) const {
    for (std::size_t i = 0; i < gpus_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (cell(static_cast<int>(i), static_cast<int>(j)) != c) return false;
    return true;
  }

  const std::vector<TopologyFacts>& files_;
  const GpuSpec& gpu_;
  BoxDraft out_;
  Diagnostics errors_;
  PciTree tree_;
  std::string tree_file_, classes_file_, pairs_file_;
  std::vector<int> gpus_;  // nodes of the tree, in rank order
  const ClassMatrix* classes_ = nullptr;
  const PairTimes* pairs_ = nullptr;
  std::vector<std::size_t> place_;  // of each GPU in the measured matrices
  std::vector<std::vector<std::optional<bool>>> p2p_;
  std::map<int, int> at_;  // device of a node
  std::vector<std::string> guest_signs_;
  std::size_t numa_count_ = 0, unknown_speeds_ = 0;
};

}  // namespace

Expected<BoxDraft> draft_box(const std::vector<TopologyFacts>& files, const GpuSpec& gpu) {
  return Drafter(files, gpu).draft();
}
