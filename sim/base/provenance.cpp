#include "sim/base/provenance.hpp"

#include <array>
#include <utility>

namespace {
constexpr std::array<std::pair<Provenance, std::string_view>, 7> words = {{
    {Provenance::exact, "exact"},
    {Provenance::measured, "measured"},
    {Provenance::stated, "stated"},
    {Provenance::interpolated, "interpolated"},
    {Provenance::fitted, "fitted"},
    {Provenance::roofline, "roofline"},
    {Provenance::assumed, "assumed"},
}};
}

std::string_view name(Provenance p) {
  for (const auto& [value, word] : words)
    if (value == p) return word;
  return "?";
}

bool parse_provenance(std::string_view word, Provenance& out) {
  for (const auto& [value, known] : words)
    if (known == word) return out = value, true;
  return false;
}

std::vector<std::string> provenance_names() {
  std::vector<std::string> out;
  for (const auto& [value, word] : words) out.emplace_back(word);
  return out;
}
