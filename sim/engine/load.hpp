#pragma once

#include <cstdint>

#include "sim/base/time.hpp"
#include "sim/engine/content.hpp"

/// One request as a load generator plans it.
struct PlannedRequest {
  std::int64_t input = 0;    // prompt tokens
  std::int64_t output = 0;   // tokens after which it really stops
  std::int64_t max_new = 0;  // the client's limit on new tokens; 0: `output`
  Duration send_at;  // after the benchmark's clock starts; of a next turn: after the last one
  Content prompt;    // empty: unlike any other prompt
  std::int64_t answer = -1;  // the stream that its output makes, where a later prompt may repeat it
  std::int64_t session = -1;  // the conversation under way it belongs to; -1: none

  std::int64_t limit() const { return max_new > 0 ? max_new : output; }
};

/// The client as a server's loop sees it: who is sent next, and that somebody is done.
class Load {
 public:
  /// A request that will be sent.
  struct Sending {
    PlannedRequest* request = nullptr;  // null: nothing more is known to come
    TimePoint at;
    std::int64_t index = -1;  // in the benchmark; -1: a warm-up request
  };

  virtual ~Load() = default;
  /// The next request that is sent as far as is known now. Valid until take(), or until ended()
  /// says that it may be another.
  virtual Sending next() = 0;
  /// What next() said last was sent. Its prompt may have been moved from.
  virtual void take() = 0;
  /// A request has ended (finished or rejected) at the client. Called in the order of time. Whether
  /// next() may say something else from now on.
  virtual bool ended(std::int64_t index, std::int64_t session, TimePoint at_client) = 0;
};
