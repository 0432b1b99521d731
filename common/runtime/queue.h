// A bounded queue between the stages of a pipeline: it blocks the faster side, never spins.
#pragma once

#include "cli/error.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

namespace tl {

template <class T> class BoundedQueue {
public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity ? capacity : 1) {}

  /// Blocks while full. False once the queue is closed or has failed: the producer should stop.
  /// Throws Interrupted, since the consumer may be stuck in a write that nobody reads.
  bool push(T item) {
    return push(std::move(item), [](T &, T &) { return false; });
  }

  /// The same, but the item may join the last one that waits: join(last, item) is true if it did. So a
  /// consumer that falls behind gets more at a time.
  template <class Join> bool push(T item, const Join &join) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!closed_ && !items_.empty() && join(items_.back(), item)) return true;
    const auto start = Clock::now();
    while (!changed_.wait_for(lock, std::chrono::milliseconds(200),
                              [&] { return items_.size() < capacity_ || closed_; }))
      check_interrupt();
    push_wait_ += Clock::now() - start;
    if (closed_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  /// Blocks while empty. Once drained: empty if closed, or rethrows what fail() was given.
  std::optional<T> pop() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto start = Clock::now();
    changed_.wait(lock, [&] { return !items_.empty() || closed_; });
    pop_wait_ += Clock::now() - start;
    if (items_.empty() && error_) std::rethrow_exception(error_);
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  /// No more items; the consumer drains what is left.
  void close() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  /// The producer failed: pop() rethrows `error` after the items that were ready.
  void fail(std::exception_ptr error) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = error;
    closed_ = true;
    changed_.notify_all();
  }

  /// Seconds the producers spent blocked on a full queue, the consumers on an empty one.
  double push_wait() const { return seconds(&BoundedQueue::push_wait_); }
  double pop_wait() const { return seconds(&BoundedQueue::pop_wait_); }

private:
  using Clock = std::chrono::steady_clock;
  double seconds(Clock::duration BoundedQueue::*waited) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::chrono::duration<double>(this->*waited).count();
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
  std::exception_ptr error_;
  Clock::duration push_wait_{}, pop_wait_{};
};

} // namespace tl
