#include "sim/base/versions.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

namespace {

// "0.5.6.post2" -> 0 5 6 2; "1.3.0rc20" -> 1 3 0 20
std::vector<double> numbers(const std::string& version) {
  std::vector<double> out;
  for (std::size_t i = 0; i < version.size();) {
    if (!std::isdigit(static_cast<unsigned char>(version[i]))) {
      ++i;
      continue;
    }
    double value = 0;
    for (; i < version.size() && std::isdigit(static_cast<unsigned char>(version[i])); ++i)
      value = value * 10 + (version[i] - '0');
    out.push_back(value);
  }
  return out;
}

}  // namespace

double version_distance(const std::string& a, const std::string& b) {
  const auto x = numbers(a), y = numbers(b);
  double scale = 1e9;
  for (std::size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
    const double p = i < x.size() ? x[i] : 0, q = i < y.size() ? y[i] : 0;
    // held below the step before, so that a date does not outweigh it
    if (p != q) return std::min(std::abs(p - q), 999.0) * scale;
    scale /= 1000;
  }
  return a == b ? 0 : 1e-9;
}

bool older(const std::string& version, const std::string& than) {
  const auto n = numbers(version);
  return !n.empty() && n < numbers(than);
}
