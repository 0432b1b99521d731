// The most memory that tensors take while something runs.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace tl::model {

/// While it lives, counts what this thread allocates through LibTorch's CPU allocator (oneDNN's
/// tensors too) beyond what was there before. Allocations in other threads are not seen; operators
/// make them for small scratch space only.
class PeakMemory {
public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory &) = delete;
  PeakMemory &operator=(const PeakMemory &) = delete;

  std::int64_t peak_bytes() const;

private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

} // namespace tl::model
