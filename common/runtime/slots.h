// At most so many threads at once in some part of the work, of many that wait for something else before it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace tl {

class Slots {
public:
  explicit Slots(std::size_t count) : free_(count) {}

  /// Holds one while it lives; waits for it first.
  class Hold {
  public:
    explicit Hold(Slots &slots) : slots_(slots) { slots_.take(); }
    ~Hold() { slots_.give_back(); }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

  private:
    Slots &slots_;
  };

private:
  void take() {
    std::unique_lock<std::mutex> lock(mutex_);
    freed_.wait(lock, [&] { return free_ > 0; });
    --free_;
  }
  void give_back() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++free_;
    }
    freed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  std::size_t free_;
};

} // namespace tl
