// A network with several outputs in pieces that are timed one by one.
#pragma once

#include "graph/graph.h"

#include <vector>

namespace tl::profile {

/// The nodes [first, last): a program from `inputs` to `outputs`.
struct Run {
  int first = 0, last = 0;
  std::vector<graph::ValueId> inputs, outputs;
  double work = 0; // graph::work() of its nodes
};

/// Divides all nodes of a graph whose outputs are `wanted` into at most about `most` runs of similar work.
/// Borders lie before operators that do real work, so that what is optimised together stays together, and
/// where only tensors with one row per record cross. Nodes that nothing wanted depends on are in no run's
/// program.
std::vector<Run> choose_runs(const graph::Graph &graph, const std::vector<graph::ValueId> &wanted,
                             std::size_t most);

} // namespace tl::profile
