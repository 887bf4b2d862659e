#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

/// Calls `visit(fields)` for every row of a table, plain or gzipped; `columns` are looked up by
/// name in its first line and come in that order.
template <class Visit>
void read_csv(const std::string& path, const std::vector<std::string>& columns, Visit&& visit) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      popen(("zcat -f '" + path + "'").c_str(), "r"), pclose);
  REQUIRE(pipe);
  const auto split = [](const std::string& line) {
    std::vector<std::string> out(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"')
        quoted = !quoted;
      else if (c == ',' && !quoted)
        out.emplace_back();
      else
        out.back() += c;
    }
    return out;
  };
  std::vector<std::size_t> places;
  std::vector<std::string> fields(columns.size());
  std::string line;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe.get())) {
    line = buffer;
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    const auto all = split(line);
    if (places.empty()) {
      for (const auto& column : columns) {
        const auto it = std::find(all.begin(), all.end(), column);
        INFO(path << ": no column " << column);
        REQUIRE(it != all.end());
        places.push_back(static_cast<std::size_t>(it - all.begin()));
      }
      continue;
    }
    for (std::size_t i = 0; i < places.size(); ++i) fields[i] = all.at(places[i]);
    visit(fields);
  }
}

/// The relative errors of one group of points.
struct Errors {
  std::vector<double> absolute;
  void add(double predicted, double measured) {
    absolute.push_back(std::abs(predicted / measured - 1));
  }
  double quantile(double q) {
    REQUIRE_FALSE(absolute.empty());
    std::sort(absolute.begin(), absolute.end());
    return absolute[static_cast<std::size_t>(q * static_cast<double>(absolute.size() - 1))];
  }
  double median() { return quantile(0.5); }
};
