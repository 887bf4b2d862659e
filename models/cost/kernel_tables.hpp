#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "models/cost/kernel_table.hpp"

/// Which table was asked for and which one answers.
struct TableChoice {
  const KernelSet* set = nullptr;  // null: none of the class has these words
  bool same_engine = false, same_version = false;
  /// "sglang 0.5.14 for 0.5.9", for people; empty when it is the very one.
  std::string substitution;
};

/// All fitted sets of one GPU, by class.
class KernelTables {
 public:
  /// Adds sets and makes them ready for `gpu`.
  void add(std::vector<KernelSet> sets, const GpuSpec& gpu);
  bool empty() const { return sets_.empty(); }
  const std::deque<KernelSet>& sets() const { return sets_; }

  /// The set of a class with these words (a word that is absent or empty matches any), of this
  /// engine if there is one, in the nearest version. The engine decides before the version: another
  /// engine's kernel of the same name is a guess.
  TableChoice find(const std::string& kernel_class, const std::string& engine,
                   const std::string& version,
                   const std::map<std::string, std::string>& words) const;

 private:
  std::deque<KernelSet> sets_;  // addresses stay
};
