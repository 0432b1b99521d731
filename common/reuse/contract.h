// Private to common/reuse: a smaller problem with the same best answer.
#pragma once

#include "reuse/problem.h"

namespace tl::reuse {

struct Contracted {
  Problem problem;
  std::vector<int> node_of; // for each original node, its node here; -1: nobody needs it
  std::vector<int> kept;    // for each node here, the original one that it stands for
};

/// Drops what no reader needs. Joins a value to the group of nodes that alone consumes it if the group's last
/// value is the better one to store: no larger, no slower to load and write, and it saves more. Most of a
/// network goes: of a convolution, a normalisation and an activation in a row, or of a residual block, only
/// the end is a choice.
Contracted contract(const Problem &problem);

} // namespace tl::reuse
