// p2pBandwidthLatencyTest of NVIDIA's cuda-samples: matrices of copies between pairs of GPUs, one
// pair at a time, with peer access off and on. The CPU's own latencies and the reads are left out
// (NCCL and the engines write to peers).

#include <algorithm>

#include <fmt/format.h>

#include "calibrate/import/topology/text_scan.hpp"
#include "calibrate/import/topology/topology_facts.hpp"
#include "sim/base/table_text.hpp"

namespace {

bool has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

bool recognises(std::string_view text) {
  return has(text, "GPU Bandwidth Latency Test") || has(text, "P2P=Enabled") ||
         has(text, "P2P=Disabled");
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view text, Diagnostics& errors)
      : path_(path), text_(text), lines_(text_lines(text)), errors_(errors) {}

  TopologyFacts read() {
    TopologyFacts out;
    out.path = path_;
    out.form = "p2pBandwidthLatencyTest";
    for (at_ = 0; at_ < lines_.size();) {
      const auto line = lines_[at_];
      if (line.starts_with("Device:")) read_device(line, out);
      if (line.starts_with("Device=")) read_access(line);
      ++at_;
      if (Numbers* matrix = matrix_of(line); matrix || is_skipped(line)) read_matrix(line, matrix);
    }
    for (const auto& ids = pairs_.bus_ids; const auto& id : ids)
      if (std::count(ids.begin(), ids.end(), id) > 1)
        return errors_.error(place(text_), fmt::format("the device {} is listed twice", id),
                             "give the output of one run"),
               out;
    if (n_ == 0 && errors_.empty())
      errors_.error(table_place(path_, 0, 0, {}), "there is no matrix of bandwidths or latencies",
                    "the output was cut off");
    if (!pairs_.bus_ids.empty() && n_ > 0 && pairs_.bus_ids.size() != n_ && errors_.empty())
      errors_.error(place(text_), fmt::format("{} devices are listed, the matrices have {}",
                                              pairs_.bus_ids.size(), n_));
    pairs_.can_access.assign(access_.empty() ? 0 : n_, std::vector<std::optional<bool>>(n_));
    for (const auto& [pair, can] : access_)
      if (pair.first < n_ && pair.second < n_) pairs_.can_access[pair.first][pair.second] = can;
    out.pairs = std::move(pairs_);
    return out;
  }

 private:
  Location place(std::string_view part) const { return place_in(path_, text_, part); }

  // "Device: 0, NVIDIA H200, pciBusID: 3b, pciDeviceID: 0, pciDomainID:0"; the numbers are hex.
  void read_device(std::string_view line, TopologyFacts& out) {
    const auto value = [&](std::string_view key) -> std::optional<unsigned> {
      const auto at = line.find(key);
      if (at == std::string_view::npos) return {};
      auto rest = line.substr(at + key.size());
      while (rest.starts_with(' ')) rest.remove_prefix(1);
      return hex_number(rest.substr(0, rest.find_first_of(", \t")));
    };
    const auto comma = line.find(',');
    const auto bus = line.find(", pciBusID");
    if (comma != std::string_view::npos && bus != std::string_view::npos && bus > comma + 2)
      out.models.emplace_back(line.substr(comma + 2, bus - comma - 2));
    const auto b = value("pciBusID:"), d = value("pciDeviceID:"), o = value("pciDomainID:");
    const auto id = b && d ? bus_id(fmt::format("{:x}:{:x}:{:x}", o.value_or(0), *b, *d))
                           : std::optional<std::string>();
    if (id)
      pairs_.bus_ids.push_back(*id);
    else
      errors_.error(place(line), "this device has no bus id", "the output was cut off");
  }

  // "Device=0 CAN Access Peer Device=1"
  void read_access(std::string_view line) {
    const auto words = words_of(line);
    if (words.size() < 5) return;
    const auto from = number_after(words[0].text, "Device="),
               to = number_after(words.back().text, "Device=");
    if (from && to && (words[1].text == "CAN" || words[1].text == "CANNOT"))
      access_.push_back({{static_cast<std::size_t>(*from), static_cast<std::size_t>(*to)},
                         words[1].text == "CAN"});
  }

  Numbers* matrix_of(std::string_view line) {
    if (!has(line, "Matrix (") || has(line, "Reads")) return nullptr;
    const bool on = has(line, "P2P=Enabled");
    if (!on && !has(line, "P2P=Disabled")) return nullptr;
    if (has(line, "Latency")) return on ? &pairs_.latency_on : &pairs_.latency_off;
    if (has(line, "Bidirectional")) return on ? &pairs_.both_ways_on : &pairs_.both_ways_off;
    if (has(line, "Unidirectional")) return on ? &pairs_.one_way_on : &pairs_.one_way_off;
    return nullptr;
  }
  static bool is_skipped(std::string_view line) {
    return has(line, "P2P Connectivity Matrix") || (has(line, "Matrix (") && has(line, "Reads"));
  }

  // The rows below a heading; into nothing where they are of no use here.
  void read_matrix(std::string_view heading, Numbers* into) {
    while (at_ < lines_.size() && words_of(lines_[at_]).empty()) ++at_;
    const auto header = at_ < lines_.size() ? words_of(lines_[at_]) : std::vector<Word>();
    if (header.size() < 2 || (header[0].text != "D\\D" && header[0].text != "GPU"))
      return errors_.error(place(heading), "no matrix follows this heading",
                           "the output was cut off");
    const auto n = header.size() - 1;
    for (std::size_t i = 0; i < n; ++i)
      if (number_after(header[i + 1].text, "") != static_cast<int>(i) ||
          n > static_cast<std::size_t>(box_gpus_max))
        return errors_.error(place(header[i + 1].text),
                             "the devices of this header do not count up from 0");
    if (n_ == 0) n_ = n;
    if (n != n_)
      return errors_.error(place(header[0].text),
                           fmt::format("this matrix has {} devices, the first has {}", n, n_),
                           "give the output of one run");
    ++at_;
    // GB/s: a link of 1 MB/s to far beyond a GPU's own memory; us: shorter than a cycle to 10 ms.
    const double least = 0.001, most = has(heading, "(us)") ? 1e4 : 1e5;
    Numbers rows;
    for (; rows.size() < n && at_ < lines_.size(); ++at_) {
      const auto words = words_of(lines_[at_]);
      if (words.empty() || number_after(words[0].text, "") != static_cast<int>(rows.size())) break;
      if (words.size() != n + 1)
        return ++at_, errors_.error(place(words.back().text),
                                    fmt::format("row {} has {} of {} numbers", rows.size(),
                                                words.size() - 1, n),
                                    "the output was cut off");
      auto& row = rows.emplace_back();
      for (std::size_t j = 0; j < n; ++j) {
        const auto value = table_number(words[j + 1].text);
        if (!value || *value < 0 || (into && (*value < least || *value > most)))
          errors_.error(place(words[j + 1].text), fmt::format("'{}' is no bandwidth or latency",
                                                              printable(words[j + 1].text)));
        row.push_back(value.value_or(0));
      }
    }
    if (rows.size() < n)
      return errors_.error(place(header[0].text),
                           fmt::format("{} of {} rows are missing", n - rows.size(), n),
                           "the output was cut off");
    if (!into) return;
    if (!into->empty())
      return errors_.error(place(heading), "this matrix appears twice", "give one run at a time");
    *into = std::move(rows);
  }

  const std::string& path_;
  std::string_view text_;
  std::vector<std::string_view> lines_;
  Diagnostics& errors_;
  PairTimes pairs_;
  std::vector<std::pair<std::pair<std::size_t, std::size_t>, bool>> access_;
  std::size_t n_ = 0, at_ = 0;
};

const Registered<TopologyForm> me(
    "p2pBandwidthLatencyTest",
    {"copies between pairs of GPUs, timed by p2pBandwidthLatencyTest", recognises,
     [](const std::string& path, std::string_view text, Diagnostics& errors) {
       return Reader(path, text, errors).read();
     }});

}  // namespace
