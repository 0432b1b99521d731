// Keeping RUNS/features within a budget, the least valuable features first.
#pragma once

#include "store/catalogue.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::select {

struct GarbageOptions {
  std::int64_t budget = 0; // bytes that the features may take
  bool trials = false;     // weights of candidates that the last cycle does not name go, too
  bool dry_run = false;    // nothing is removed
};

/// What one removal frees.
struct Removal {
  std::string what; // path below RUNS
  std::string why;  // "layer4, 500 records, 12 s to recompute, last used 2026-12-02 15:07:45"
  std::int64_t bytes = 0;
};

struct GarbageReport {
  std::int64_t before = 0, after = 0; // bytes of features
  std::vector<Removal> removed;
};

/// The worth of features: seconds that recomputing them would take, for a byte, and less with every day that
/// they lie unused. Nothing measured: the least worth of all.
double worth(const store::FeatureRow &features, std::int64_t now_seconds);

/// Takes the lock of the folder, or throws Error naming the process that works in it. Features that the last
/// cycle used go last. A crash in the middle leaves features that are whole or not there.
GarbageReport collect_garbage(const std::string &runs, const GarbageOptions &options);

} // namespace tl::select
