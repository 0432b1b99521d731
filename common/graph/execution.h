// How frozen layers are run. Which way is the fastest depends on the network and the processor: tl-profile
// measures it, and plans say it.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tl::graph {

enum class Execution {
  blocked,       // convolutions in oneDNN's blocked layout, where LibTorch computes that correctly
  channels_last, // convolutions on channels-last tensors
  bf16,          // channels-last; parameters and what lies between the layers have 8 bits of precision
};

constexpr std::array<Execution, 3> kExecutions = {Execution::blocked, Execution::channels_last,
                                                  Execution::bf16};

/// "blocked", "channels-last", "bf16".
std::string_view name_of(Execution execution);
/// Throws UsageError naming those that there are.
Execution execution_from_name(const std::string &name);

/// False if results differ by more than the order of sums explains.
constexpr bool exact(Execution execution) { return execution != Execution::bf16; }

} // namespace tl::graph
