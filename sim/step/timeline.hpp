#pragma once

#include <algorithm>

#include "sim/base/time.hpp"

/// A stretch of work that one host thread issues to one GPU stream, seen from outside. Started with
/// the host free at h and the stream free at s, the stream is done at max(s + device, h + span) and
/// the host at h + host. Such stretches compose exactly (max-plus algebra), so a layer is worked
/// out once and repeated in closed form, and launches race the GPU without a factor for it.
struct Timeline {
  Duration host;    // time the host thread is busy issuing
  Duration device;  // time the stream needs when everything was issued in time
  Duration span;    // from the first issue to the end when the stream was idle

  /// `n` equal kernels, each issued at a cost of `launch` before it can start.
  static Timeline kernels(int n, Duration launch, Duration total) {
    return {n * launch, total, std::max(launch + total, n * launch + total / n)};
  }

  /// Goes on with `next`.
  void add(const Timeline& next) {
    span = std::max(span + next.device, host + next.span);
    host += next.host;
    device += next.device;
  }
  /// This stretch, then `next`.
  Timeline then(const Timeline& next) const {
    Timeline both = *this;
    both.add(next);
    return both;
  }

  /// This stretch `n` times in a row.
  Timeline repeated(int n) const {
    if (n == 0) return {};
    return {n * host, n * device, span + (n - 1) * std::max(host, device)};
  }
};
