#pragma once

#include <string>

/// How processes of one plug-in find each other. The plug-in of collectives defines one; the others
/// have none.
class RankLibrary {
 public:
  virtual ~RankLibrary() = default;
  /// Text that rank 0 hands to the others.
  virtual std::string make_id() = 0;
  /// Blocks until all ranks are there.
  virtual void join(const std::string& id, int rank, int ranks) = 0;
};
/// Null where this plug-in has none. Set by a file-scope object before main.
RankLibrary*& rank_library();
