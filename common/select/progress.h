// How far a whole experiment is, in one line on a terminal: what is done, what runs, and when it will end.
#pragma once

#include "select/reuse_plan.h"

#include <chrono>
#include <string>

namespace tl::select {

/// Of an experiment under way.
struct Standing {
  std::uint64_t records = 0, all_records = 0;     // extracted, over all passes
  std::size_t candidates = 0, all_candidates = 0; // trained or found
  double seconds = 0;                             // so far
};

/// Seconds until the end: what the plan predicts for the rest, corrected by how long it took up to here.
double seconds_left(const Predicted &predicted, const Standing &standing);

/// "extracting 120/400, then 12 candidates; about 2.1 min left"
std::string describe(const Predicted &predicted, const Standing &standing);

/// Draws that on stderr, if it is a terminal and nobody asked for quiet; gone when the object is.
class ExperimentProgress {
public:
  explicit ExperimentProgress(const ReusePlan &plan);
  ExperimentProgress(const ExperimentProgress &) = delete;
  ExperimentProgress &operator=(const ExperimentProgress &) = delete;
  ~ExperimentProgress();
  void extracted(std::size_t records);
  void trained();

private:
  void draw();

  Predicted predicted_;
  Standing standing_;
  bool active_;
  std::chrono::steady_clock::time_point start_, drawn_;
};

} // namespace tl::select
