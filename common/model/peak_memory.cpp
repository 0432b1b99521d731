#include "model/peak_memory.h"

#include <algorithm>

namespace tl::model {

namespace {
/// LibTorch 1 passes the totals as int64_t, LibTorch 2 as size_t.
template <class F> struct TotalOf;
template <class C, class T> struct TotalOf<void (C::*)(void *, std::int64_t, T, T, c10::Device)> {
  using Type = T;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;
} // namespace

class PeakMemory::Counter : public c10::MemoryReportingInfoBase {
public:
  void reportMemoryUsage(void *, std::int64_t size, Total, Total, c10::Device) override {
    now_ += size; // negative when memory is freed
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

private:
  std::int64_t now_ = 0, peak_ = 0;
};

PeakMemory::PeakMemory()
    : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

PeakMemory::~PeakMemory() = default;

std::int64_t PeakMemory::peak_bytes() const { return counter_->peak(); }

} // namespace tl::model
