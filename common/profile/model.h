// How long each part of a network takes on this machine, frozen and trained, and how much memory.
#pragma once

#include "data/preprocess.h"
#include "model/model.h"
#include "plan/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::profile {

struct ModelOptions {
  std::vector<std::int64_t> batches = {1, 8, 32}; // ascending
  bool all_batches = false;                       // measure every one of them, whatever it takes
  int threads = 0;                                // that run an operator; 0: all cores
  double seconds = 20;     // about; larger batches are left out when they would take much longer
  bool allow_bf16 = false; // layers may be run in bf16, if that is faster
};

struct MeasuredModel {
  plan::ModelProfile profile;
  std::vector<std::string> notes; // what was scaled and what was left out, one line each
};

/// Runs every segment (segments.h) frozen and optimised as in a prefix, and forward and backward
/// with its parameters trainable, on random records: a warm-up, then the median of several runs, at
/// each batch size, in the way that is the fastest (executions.h). A few prefixes and the whole network are
/// timed too; the frozen segments are scaled to add up to them. Throws Interrupted.
MeasuredModel measure_model(const model::Model &model, const data::Preprocess &preprocess,
                            const ModelOptions &options = {});

} // namespace tl::profile
