#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/cost/kernel_class.hpp"
#include "sim/base/diagnostics.hpp"
#include "sim/base/provenance.hpp"

/// A time from a table, in us, and what it rests on. `extrapolated`: some size lies beyond twice
/// the measured range.
struct TableAnswer {
  double us = 0;
  Provenance provenance = Provenance::fitted;
  double error = 0;  // median relative error of the set on shapes it had not seen
  bool extrapolated = false;
};

/// Maps sizes to where they lie on a doubling scale: exact at powers of two, straight between them.
/// Unlike a logarithm it is the same on every machine.
double doubling(double x);

/// One fitted set: a law, and by how much the measured times differ from it. The cells are ratios
/// of time and law, one row per shape, one column per value of the last axis (the curve); between
/// them ratios are interpolated on the doubling scale. Cells not kept are filled from their row.
class KernelSet {
 public:
  std::string kernel_class, engine, version;
  std::string measured_on;  // the GPU its file names; "" where it was just fitted
  std::map<std::string, std::string> words;
  std::string source;
  std::size_t rows_measured = 0;
  double error_median = 0, error_p90 = 0;  // on whole shapes left out of the fit
  std::vector<double> parameters;          // of the law, in the class's order
  std::vector<double> columns;             // values of the last axis
  std::vector<Coordinates> shapes;         // sorted; the other axes
  std::vector<double> cells;               // shapes x columns; 0: not kept
  double letter_step = 0;                  // of the cells as written; 0: in thousandths

  /// Makes the set ready to predict for a GPU (which may be another than the measured one).
  void prepare(const GpuSpec& gpu);
  /// `x`: all coordinates in the class's order.
  TableAnswer predict(const double* x) const;
  /// The same in serving, where what fits the L2 in a measuring loop comes from DRAM.
  TableAnswer predict_cold(const double* x) const;
  double law_us(const double* x) const { return class_->law(context_, parameters.data(), x); }
  const KernelClass& kind() const { return *class_; }
  const LawContext& context() const { return context_; }

 private:
  struct Node {
    double value, place;
    std::uint32_t begin, end;  // children in the next level; at the last level: the row
  };
  struct Tree {
    std::vector<std::size_t> order;  // axes, outermost first
    std::vector<std::vector<Node>> levels;
  };
  struct Walk;
  Tree grow(std::vector<std::size_t> order) const;
  double cell(Walk& walk, std::size_t row) const;
  double ratio(const Tree& tree, Walk& walk, std::size_t level, std::uint32_t begin,
               std::uint32_t end) const;

  const KernelClass* class_ = nullptr;
  LawContext context_;
  std::vector<Tree> trees_;
  std::vector<double> filled_;
  std::vector<double> column_place_;
};

/// How the ratios of a large set are written: one letter each on a logarithmic scale, 'P' being 1
/// and every further letter (ASCII) `step` times more.
class Letters {
 public:
  explicit Letters(double step);
  double ratio(char letter) const { return ratios_[static_cast<unsigned char>(letter) & 127]; }
  char letter(double ratio) const;

 private:
  std::array<double, 128> ratios_{};
};

/// The text of a table file: one class on one GPU, several sets.
std::string write_kernel_sets(const std::string& gpu, const std::vector<KernelSet>& sets);
Expected<std::vector<KernelSet>> read_kernel_sets(const std::string& name, const std::string& text);
