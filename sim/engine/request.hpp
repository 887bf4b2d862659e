#pragma once

#include <cstdint>

#include "sim/base/time.hpp"

using RequestId = std::int32_t;

/// What a scheduler may know of a request: never its true output length.
struct RequestView {
  RequestId id = 0;
  std::int64_t prompt = 0;     // tokens
  std::int64_t max_new = 0;    // the client's limit on new tokens
  std::int64_t prefilled = 0;  // tokens of the prompt (and, after a retraction, of the output)
                               // whose KV is there or being computed
  std::int64_t generated = 0;  // output tokens the engine knows of
  std::int64_t kv_tokens = 0;  // tokens with KV pages, the one being computed included

  /// Tokens that must be prefilled before the request can decode.
  std::int64_t to_prefill() const { return prompt + generated; }
};

/// A request with what only the simulation knows.
struct Request : RequestView {
  enum class State { waiting, prefilling, running, finished, rejected };
  State state = State::waiting;
  std::int64_t output = 0;  // tokens after which it really stops
  std::int64_t pages = 0;
  int epoch = 0;  // counts retractions: results of an older epoch are dropped
  int retractions = 0;
};
