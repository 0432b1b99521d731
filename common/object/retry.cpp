#include "object/retry.h"

#include "cli/error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace tl::object {

Retry::Retry(const RetryPolicy &policy) : policy_(policy) {}

double Retry::bound(const RetryPolicy &policy, int attempts) {
  return std::min(policy.longest, std::ldexp(policy.base, std::min(attempts - 1, 30)));
}

bool Retry::wait(double retry_after) {
  if (attempts_ >= policy_.attempts) return false;
  thread_local std::mt19937_64 random(std::random_device{}());
  const double jitter = std::uniform_real_distribution<>(0, bound(policy_, attempts_))(random);
  const double pause = std::max(jitter, retry_after);
  if (watch_.seconds() + pause > policy_.total) return false;
  // In pieces, because a signal ends no sleep of another thread.
  const Stopwatch slept;
  for (;;) {
    check_interrupt();
    const double left = pause - slept.seconds();
    if (left <= 0) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, 0.1)));
  }
  ++attempts_;
  return true;
}

} // namespace tl::object
