#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/gpu.hpp"
#include "sim/base/registry.hpp"

/// What a law knows of the GPU and of the words that picked its table (precision, head size).
/// Rates are per microsecond so that laws stay free of powers of ten.
struct LawContext {
  double peak = 0;       // FLOP per us at the precision of the arithmetic
  double bandwidth = 0;  // bytes per us of DRAM
  double l2 = 0;         // bytes
  double sms = 0;
  double weight_bytes = 2;  // per element, scales included
  double kv_bytes = 2;      // per element
  double head_dim = 128;
  double window = 0;        // tokens a query sees; 0: all
  bool spread_out = false;  // experts drawn so that every one is touched as early as possible
};

/// One number of a law. Efficiencies are fractions of the GPU's own peak or bandwidth, so that a
/// law can be moved to another GPU; times are microseconds.
struct LawParameter {
  std::string name;
  double guess = 0, lower = 0, upper = 0;
};

/// The least time that arithmetic and memory traffic leave, in us.
struct KernelBound {
  double arithmetic_us = 0, memory_us = 0;
};

/// How a table walks an axis when a shape lies between its rows: between two values linearly in the
/// logarithm, or at the nearest one (axes that name a model rather than measure a size).
enum class Between { interpolate, nearest };

struct KernelAxis {
  std::string column;
  Between between = Between::interpolate;
};

inline constexpr std::size_t kernel_axes_max = 8;
using Coordinates = std::array<double, kernel_axes_max>;

/// A class of kernels that were measured alike: the words that tell one table of it from another,
/// the sizes that a time depends on, and a law. One file of models/cost/kernels each.
struct KernelClass {
  std::string help;
  std::vector<std::string> tables;  // names of measured tables that hold it: "gemm"
  std::vector<std::string> words;   // columns that pick a set: back end, precision
  std::vector<KernelAxis> axes;     // columns of a shape, outermost first; the last is the curve
  std::size_t shape_axes = 0;       // leading axes that make "one shape" when errors are judged
  std::vector<LawParameter> parameters;
  LawContext (*context)(const GpuSpec&, const std::map<std::string, std::string>& words);
  /// Time in us at the coordinates `x` with the parameters `p`; no log, exp or pow.
  double (*law)(const LawContext&, const double* p, const double* x);
  KernelBound (*bound)(const LawContext&, const double* x);
  /// The least time in us when nothing is in the L2 yet, as in serving; null where the measured
  /// loops already ran so. Tables measured in a loop are too fast for what fits the L2.
  double (*cold)(const LawContext&, const double* p, const double* x) = nullptr;
};

/// What all contexts share: peak at a precision named as in the tables (bfloat16, fp8, nvfp4, ...).
LawContext law_context(const GpuSpec& gpu, std::string_view arithmetic, std::string_view weights);

/// Time in us of reading `bytes` again and again, as the measured loops do: at `warm` times the
/// DRAM bandwidth while they fit the L2, at `cold` times it when they do not, and a mix between
/// half of the L2 and all of it. What a server reads is cold: it comes once per layer and pass.
double reread_us(const LawContext& c, double bytes, double cold, double warm);

/// Two demands on one kernel that overlap well but not fully: never less than the larger, at most
/// 1.41 times it.
double overlapped(double a, double b);

/// A word of a set, "" when neither the table nor its manifest stated it.
std::string_view word(const std::map<std::string, std::string>& words, const char* id);
double word_number(const std::map<std::string, std::string>& words, const char* id,
                   double otherwise);
double table_bytes_per_element(std::string_view dtype);

using KernelClasses = Registry<KernelClass>;
