#include "calibrate/import/topology/import_topology.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "calibrate/import/topology/text_scan.hpp"
#include "sim/base/table_text.hpp"
#include "sim/scenario/data.hpp"
#include "sim/scenario/yaml.hpp"

namespace {

// PCI device ids of NVIDIA's cards (pci-ids.ucw.cz, read 2026-12) and our files for them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> cards = {{
    {"20b2", "a100"},
    {"2330", "h100"},
    {"2335", "h200"},
    {"2901", "b200"},
    {"27b8", "l4"},
    {"26b9", "l40s"},
    {"2684", "rtx-4090"},
    {"2b85", "rtx-5090"},
    {"2bb1", "rtx-pro-6000-workstation"},
    {"2bb4", "rtx-pro-6000-max-q"},
    {"2bb5", "rtx-pro-6000-server"},
    {"20b0", "a100"},
}};

// The forms that know the text; an error where none does.
std::vector<TopologyFacts> read_file(const std::string& path, Diagnostics& errors) {
  std::vector<TopologyFacts> out;
  const auto text = read_table_text(path);
  if (!text) return errors.append(text.error()), out;
  for (const auto& [name, form] : Registry<TopologyForm>::entries())
    if (form.recognises(*text)) out.push_back(form.read(path, *text, errors));
  if (out.empty()) {
    std::string known;
    for (const auto& form : Registry<TopologyForm>::names())
      known += (known.empty() ? "" : ", ") + form;
    errors.error(table_place(path, 0, 0, {}), "nothing in this file describes a box",
                 "known: " + known);
  }
  return out;
}

// The card that the files name, in our names; nothing where they name none that we know.
std::set<std::string> named_cards(const std::vector<TopologyFacts>& files) {
  std::set<std::string> out;
  const auto take = [&](const std::string& model) {
    if (const auto id = model.empty() ? Expected<std::string>(tl::unexpected(Diagnostics()))
                                      : find_gpu(model, {}))
      out.insert(*id);
  };
  for (const auto& f : files) {
    for (const auto& model : f.models) take(model);
    if (!f.tree) continue;
    for (const auto& node : f.tree->nodes) {
      take(node.model);
      for (const auto& [id, card] : cards)
        if (node.pci_id == id) out.insert(std::string(card));
    }
  }
  return out;
}

std::string pick_card(const std::vector<TopologyFacts>& files, const std::string& given,
                      std::vector<std::string>& notes, Diagnostics& errors) {
  const auto named = named_cards(files);
  if (!given.empty()) {
    const auto id = find_gpu(given, {});
    if (!id) return errors.append(id.error()), std::string();
    for (const auto& other : named)
      if (other != *id)
        notes.push_back(fmt::format("the files name {}; --gpu says {}", other, *id));
    return *id;
  }
  if (named.size() == 1) return *named.begin();
  if (named.empty())
    errors.error(
        {}, "the files do not say which GPU this is",
        fmt::format("add --gpu NAME; known: {}", fmt::join(data_names("hardware/gpus"), ", ")));
  else
    errors.error({}, fmt::format("the box mixes cards: {}", fmt::join(named, ", ")),
                 "a machine has one kind; --gpu NAME takes all of them for one");
  return {};
}

// ---- writing ----

// A YAML scalar on one line, quoted where it must be.
std::string scalar(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

constexpr std::size_t columns = 100;

// Comment lines, wrapped: the first after `first`, the others after `next`.
std::string wrapped(const std::string& text, const std::string& first, const std::string& next) {
  std::string out, line = first;
  bool fresh = true;
  for (const auto& word : words_of(text)) {
    if (!fresh && line.size() + 1 + word.text.size() > columns)
      out += line + "\n", line = next, fresh = true;
    if (!fresh) line += ' ';
    line += word.text;
    fresh = false;
  }
  return out + line + "\n";
}

// "gpu7" is ("gpu", 7).
std::pair<std::string_view, int> split_name(std::string_view name) {
  auto at = name.size();
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
  return {name.substr(0, at), number_after(name.substr(at), "").value_or(-1)};
}

// Names that count up by one, as a range: "gpu0..7".
std::string range(const std::string& first, const std::string& last) {
  return first == last ? first : fmt::format("{}..{}", first, split_name(last).second);
}

bool follows(const std::string& before, const std::string& name) {
  const auto a = split_name(before), b = split_name(name);
  return a.first == b.first && a.second >= 0 && b.second == a.second + 1;
}

std::string device_text(const Device& d) {
  const std::string kind(name(d.kind));
  return d.acs_redirect ? fmt::format("{{kind: {}, acs_redirect: on}}", kind) : kind;
}

std::string devices_text(const std::vector<Device>& devices) {
  std::string out;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t last = i;
    while (last + 1 < devices.size() && follows(devices[last].name, devices[last + 1].name) &&
           device_text(devices[last]) == device_text(devices[last + 1]))
      ++last;
    out += fmt::format("    {}: {}\n", range(devices[i].name, devices[last].name),
                       device_text(devices[i]));
    i = last + 1;
  }
  return out;
}

// What stands behind the ends of a link.
std::string link_text(const DraftLink& l) {
  std::string out;
  if (l.kind != "pcie") out += fmt::format("kind: {}, ", l.kind);
  const auto value = fmt::format("{:.4g} GB/s", l.gbps);
  if (l.kind == "internal")
    out += fmt::format("bandwidth: {:g} GB/s", l.gbps);  // no property of the box
  else if (l.basis == Provenance::measured)
    out += fmt::format("bandwidth: {{value: {}, basis: measured, source: {}}}", value,
                       scalar(l.source));
  else if (l.spread > 1)
    out += fmt::format("bandwidth: {{value: {}, basis: {}, spread: {:g}}}", value, name(l.basis),
                       l.spread);
  else
    out += fmt::format("bandwidth: {{value: {}, basis: {}}}", value, name(l.basis));
  if (l.duplex_gbps > 0) out += fmt::format(", duplex: {:.4g} GB/s", l.duplex_gbps);
  out += fmt::format(", latency: {:.4g} ns", l.latency_ns);
  if (l.gen > 0) out += fmt::format(", gen: {}", l.gen);
  if (l.lanes > 0) out += fmt::format(", lanes: {}", l.lanes);
  return out;
}

std::string links_text(const BoxDraft& draft) {
  const auto device = [&](int i) { return draft.devices[static_cast<std::size_t>(i)].name; };
  std::string out;
  for (std::size_t i = 0; i < draft.links.size();) {
    // A run of links to one device, or to devices that count up alike.
    const auto& l = draft.links[i];
    const auto text = link_text(l);
    std::size_t last = i;
    bool one = true, pairs = true;
    for (; last + 1 < draft.links.size(); ++last) {
      const auto &here = draft.links[last], &next = draft.links[last + 1];
      if (link_text(next) != text || !follows(device(here.a), device(next.a))) break;
      const bool still_one = one && next.b == l.b;
      const bool still_pairs = pairs && follows(device(here.b), device(next.b));
      if (!still_one && !still_pairs) break;
      one = still_one, pairs = still_pairs;
    }
    out += fmt::format("    - {{ between: [{}, {}], {} }}\n",
                       range(device(l.a), device(draft.links[last].a)),
                       range(device(l.b), device(draft.links[last].b)), text);
    i = last + 1;
  }
  return out;
}

std::string p2p_text(const BoxDraft& draft) {
  if (draft.p2p_off.empty() || !draft.p2p)
    return fmt::format("p2p: {}\n", draft.p2p ? "on" : "off");
  std::string pairs;
  for (const auto& [a, b] : draft.p2p_off)
    pairs += fmt::format("{}[gpu{}, gpu{}]", pairs.empty() ? "" : ", ", a, b);
  return fmt::format("p2p: {{default: on, off: [{}]}}\n", pairs);
}

}  // namespace

Expected<ImportedBox> import_topology(const std::vector<std::string>& paths, const std::string& gpu,
                                      const std::string& given_name) {
  Diagnostics errors;
  std::vector<TopologyFacts> files;
  for (const auto& path : paths)
    for (auto& facts : read_file(path, errors)) files.push_back(std::move(facts));
  std::vector<std::string> notes;
  ImportedBox out;
  if (errors.empty() || !gpu.empty()) out.gpu = pick_card(files, gpu, notes, errors);
  // Without the card the rest is still worth its errors.
  GpuSpec spec;
  if (!out.gpu.empty()) {
    const auto file = find_data_file("hardware/gpus", out.gpu, {});
    const auto settings = file ? load_yaml(*file, {}) : tl::unexpected(file.error());
    if (!settings) return tl::unexpected(settings.error());
    Reading reading;
    spec = read_gpu(out.gpu, *settings, reading);
    errors.append(reading.errors);
  }
  bool whole = true;  // a merge of files that did not read would say the same again
  for (const auto& d : errors.list()) whole &= d.where.source == nullptr;
  if (whole) {
    auto draft = draft_box(files, spec);
    if (draft)
      out.draft = std::move(*draft);
    else
      errors.append(draft.error());
  }
  if (!errors.empty()) return tl::unexpected(errors);
  out.draft.notes.insert(out.draft.notes.begin(), notes.begin(), notes.end());
  for (auto& note : out.draft.notes) note = printable(note, 1000);
  const auto count = std::count_if(out.draft.devices.begin(), out.draft.devices.end(),
                                   [](const auto& d) { return d.kind == DeviceKind::gpu; });
  out.name = given_name.empty() ? fmt::format("imported: {}x {}", count, spec.name) : given_name;
  return out;
}

std::string machine_text(const ImportedBox& box) {
  const auto& draft = box.draft;
  std::string out = "# Written by 'ceiling import topology' from:\n";
  for (const auto& read : draft.read) out += wrapped(read, "#   ", "#     ");
  if (!draft.measured.empty()) out += "# Timed there:\n";
  for (const auto& line : draft.measured) out += wrapped(line, "#   - ", "#     ");
  out += "# Not known from these files, or assumed:\n";
  for (const auto& note : draft.notes) out += wrapped(note, "#   - ", "#     ");
  out += "schema: 1\n";
  out += fmt::format("name: {}\n", scalar(box.name));
  out += fmt::format("gpu: {}\n", box.gpu);
  out += fmt::format("runs_in: {}\n", draft.guest ? "kvm_guest" : "bare_metal");
  out += p2p_text(draft);
  out += fmt::format("\nhost: {}   # assumed\n", draft.guest ? "kvm-guest" : "bare-metal");
  out +=
      "\nreserved:\n  value: 1.1 GiB\n  basis: assumed\n"
      "  source: free memory before the weights is about 94.5 of 95.6 GiB on RTX PRO 6000 cards\n"
      "\nnccl: {version: 2.27.3}   # assumed\n"
      "\ntopology:\n  devices:\n";
  out += devices_text(draft.devices);
  out +=
      "  links:\n"
      "    # Where not measured: copies get 0.85 of a PCIe line rate (53.4 of 63 GB/s of Gen5 "
      "x16),\n"
      "    # 113 GB/s to host memory for all together, 192 GB/s between sockets; latencies are "
      "parts\n"
      "    # of the 0.72 to 1.07 us between cards and only choose routes\n"
      "    # (local-inference-lab/rtx6kpro @e2c2b957, hardware/*.md, read 2026-08).\n";
  out += links_text(draft);
  return out;
}

std::string summarise(const ImportedBox& box) {
  const auto count = [&](DeviceKind kind) {
    return std::count_if(box.draft.devices.begin(), box.draft.devices.end(),
                         [&](const auto& d) { return d.kind == kind; });
  };
  std::string out = fmt::format("{}\n", box.name);
  for (const auto& read : box.draft.read) out += fmt::format("  read      {}\n", read);
  out += fmt::format(
      "  devices   {} GPUs ({}), {} PCIe switches, {} root ports, {} host bridges, {} "
      "NVLink switches\n",
      count(DeviceKind::gpu), box.gpu, count(DeviceKind::pcie_switch), count(DeviceKind::root_port),
      count(DeviceKind::root_complex), count(DeviceKind::nvlink_switch));
  out += fmt::format("  runs in   {}\n", box.draft.guest ? "kvm_guest" : "bare_metal");
  out += fmt::format("  P2P       {}\n",
                     !box.draft.p2p ? "off"
                     : box.draft.p2p_off.empty()
                         ? "on"
                         : fmt::format("on, off in {} of the pairs", box.draft.p2p_off.size()));
  for (const auto& line : box.draft.measured) out += fmt::format("  timed     {}\n", line);
  return out;
}
