// Which way to run frozen layers is the fastest for this network on this machine.
#pragma once

#include "model/model.h"
#include "plan/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::profile {

struct ExecutionOptions {
  bool allow_bf16 = false; // also those that change results
  std::int64_t batch = 8;  // records at a time
  double seconds = 3;      // about
};

/// Runs the frozen network, from the input to `outputs`, in each way that may be used, in turns, on random
/// records. The first is "blocked", what the others' results are compared with; what cannot be run, or is not
/// exact where it should be, is left out with a note. Throws Interrupted.
std::vector<plan::ExecutionCost> measure_executions(const model::Model &model,
                                                    const std::vector<graph::ValueId> &outputs,
                                                    const ExecutionOptions &options,
                                                    std::vector<std::string> &notes);

/// The fastest, but the first unless another is faster by more than what measurements vary.
graph::Execution fastest(const std::vector<plan::ExecutionCost> &costs);

} // namespace tl::profile
