#pragma once

#include <cstdint>

#include "sim/base/time.hpp"
#include "sim/engine/content.hpp"
#include "sim/engine/kv_cache.hpp"

using RequestId = std::int32_t;

/// What a scheduler may know of a request: never its true output length.
struct RequestView {
  RequestId id = 0;            // of those under way; used again after a request's end
  std::int64_t prompt = 0;     // tokens
  std::int64_t max_new = 0;    // the client's limit on new tokens
  std::int64_t prefilled = 0;  // tokens of the prompt (and, after a retraction, of the output)
                               // whose KV is there or being computed
  std::int64_t generated = 0;  // output tokens the engine knows of
  KvHold kv;                   // its pages; the token being computed has one
  Content content;             // of the prompt
  bool decodes = true;         // running and not yet scheduled for its last allowed token

  /// Tokens that must be prefilled before the request can decode.
  std::int64_t to_prefill() const { return prompt + generated; }
};

/// A request with what only the simulation knows.
struct Request : RequestView {
  enum class State { waiting, prefilling, running, finished, rejected };
  State state = State::waiting;
  std::int64_t output = 0;   // tokens after which it really stops
  std::int64_t serial = 0;   // of all requests of a server
  std::int64_t index = -1;   // in the benchmark; -1: a warm-up request
  std::int64_t answer = -1;  // stream of its output, see PlannedRequest
  std::int64_t session = -1;
  std::int64_t cached = 0;  // prompt tokens found in the prefix cache when it was first admitted
  int retractions = 0;
  bool held = false;  // its cached prefix is locked, it is not admitted yet
  // Times at the client, but `queued`: when the scheduler first saw it.
  TimePoint sent, queued, first_token, last_token;
};
