#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_rows.hpp"

/// Counts the rows that an importer leaves out, by reason, and remembers the first place of each.
class Rejections {
 public:
  /// `cell`: the column of the table at fault, from 0.
  void add(std::string_view reason, int line, std::size_t cell);
  std::size_t rows() const;
  /// In the order of the reasons; looks the places up in the text of the table.
  std::vector<Rejected> report(const std::string& path, std::string_view text) const;

 private:
  struct First {
    std::size_t rows = 0;
    int line = 0;
    std::size_t cell = 0;
  };
  std::map<std::string, First, std::less<>> reasons_;
};

/// What every set goes through once its rows are read: leaves out times that no kernel takes,
/// shapes that repeat with another time, and outliers, and sorts the rest by shape. `time_cell`:
/// the column of the times. Returns how many repeats went into means.
std::size_t sift(KernelRows& set, const KernelClass& kind, std::size_t time_cell,
                 Rejections& rejections);
