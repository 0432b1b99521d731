// When to try again: exponential back-off with full jitter (each wait is uniform between 0 and a bound that
// doubles), after M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#pragma once

#include "runtime/clock.h"

#include <cstdint>

namespace tl::object {

struct RetryPolicy {
  int attempts = 8;    // of one operation, the first included
  double base = 0.1;   // seconds; bound of the first wait
  double longest = 20; // bound of every wait
  double total = 300;  // of one operation, waits and all
};

/// Of one operation.
class Retry {
public:
  explicit Retry(const RetryPolicy &policy);

  /// Waits, and returns true; false when the operation has had its attempts or its time. A server that
  /// asks for a wait (`retry_after` seconds) gets it if there is time. Throws Interrupted.
  bool wait(double retry_after = 0);

  int attempts() const { return attempts_; }
  /// The bound of the wait before attempt `attempts + 1`.
  static double bound(const RetryPolicy &policy, int attempts);

private:
  RetryPolicy policy_;
  Stopwatch watch_;
  int attempts_ = 1;
};

} // namespace tl::object
