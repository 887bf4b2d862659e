#pragma once

#include <string>
#include <string_view>
#include <vector>

/// What a number rests on, from firm to loose. The order is used: a sum rests on its loosest part.
enum class Provenance {
  exact,         // follows from definitions (shapes, counts)
  measured,      // read off a measurement of this very thing
  stated,        // a vendor or an engine's source states it
  interpolated,  // between measurements
  fitted,        // a law fitted on measurements
  roofline,      // a lower bound, nothing measured
  assumed,       // borrowed, scaled or guessed; carries a spread
};

std::string_view name(Provenance p);

/// The inverse of `name`; false when there is no such word.
bool parse_provenance(std::string_view word, Provenance& out);
std::vector<std::string> provenance_names();

/// A number from a data file together with where it came from. `spread` is the factor within which
/// the truth lies nine times out of ten: value / spread .. value x spread; 1 means "as printed".
template <class T>
struct Constant {
  T value{};
  Provenance basis = Provenance::stated;
  double spread = 1;
  std::string label;  // what people call it: "staging capacity"
  std::string source;
  std::vector<std::string> fitted_on;  // the runs that were looked at when it was chosen
};
