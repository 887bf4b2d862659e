#include "sim/workload/given_lengths.hpp"

#include <optional>

#include <fmt/format.h>

#include "sim/workload/trace_file.hpp"

GivenLengths::GivenLengths(Section& s, const char* count) {
  const auto length = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  const Settings* list = s.take("lengths");
  const auto file = s.maybe<std::string>("file");
  const auto requests = s.maybe<int>(count, positive<int>());
  if ((list != nullptr) == file.has_value()) {
    s.error(list ? "file" : "", list ? "either lengths or file" : "lengths or file are wanted",
            "write 'lengths: [[256, 128], [512, 64]]' or 'file: lengths.csv'");
  } else if (file) {
    const auto rows = read_lengths(beside(s.where("file"), *file));
    if (!rows) {
      s.reading().errors.append(rows.error());
      return;
    }
    for (const auto& r : *rows)
      input.push_back(length(r.input)), output.push_back(length(r.output));
  } else {
    for (const auto& pair : list->items()) add(pair, s);
    if (list->items().empty()) s.error("lengths", "lengths must be a list of pairs");
  }
  if (requests && !input.empty()) {
    const auto n = static_cast<std::size_t>(*requests);
    if (n > input.size())
      s.error(count, fmt::format("'{}' requests, but there are {} lengths", n, input.size()));
    else
      input.resize(n), output.resize(n);
  }
}

void GivenLengths::add(const Settings& pair, Section& s) {
  std::vector<std::int32_t> both;
  for (const auto& item : pair.items()) {
    const auto n = parse<int>(item.text());
    if (!n || *n < 1)
      s.reading().errors.error(item.where(),
                               fmt::format("'{}' is not a positive number of tokens", item.text()));
    both.push_back(n.value_or(1));
  }
  if (both.size() != 2) {
    s.reading().errors.error(pair.where(), "a pair [input, output] is wanted");
    return;
  }
  input.push_back(both[0]);
  output.push_back(both[1]);
}
