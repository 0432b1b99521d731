// Which runs of nodes are timed as one.
#pragma once

#include "graph/cut.h"

#include <vector>

namespace tl::profile {

/// Borders of the segments in order: the first is the input, the last the output; segment i runs
/// from the values of border i to those of border i + 1. Each segment has one operator that does
/// real work (a convolution, a matrix product) and what follows it up to the next one, so that it
/// runs optimised as it would inside of a whole prefix: a batch-norm stays with its convolution.
/// Borders of several tensors are used only where one-tensor borders would leave a segment with
/// more than a sixth of the network's work.
std::vector<graph::Cut> choose_borders(const graph::Graph &graph);

/// True for operators with weights or products, whose time stands out; the others ride along.
bool works(const graph::Node &node);

} // namespace tl::profile
