// Where a graph can be cut between the storage side and the compute side.
#pragma once

#include "graph/graph.h"

namespace tl::graph {

/// The values that cross from the nodes [0, position) to the rest. One tensor at a block boundary,
/// several across a residual or dense block. Everything before `position` is frozen.
struct Cut {
  int position = 0;            // number of nodes that run on the storage side
  std::vector<ValueId> values; // in order of their definition; {0}: the preprocessed input itself
  std::int64_t bytes = 0;      // per record, of the tensors that cross

  /// "layer3.5", or "layer3.4+layer3.5.bn3" for several values.
  std::string name(const Graph &graph) const;
};

/// Every legal cut in the order of the graph, the input first: all crossing values are batched
/// frozen tensors. Positions with the same crossing values are one cut (the earliest).
std::vector<Cut> enumerate_cuts(const Graph &graph, const std::vector<bool> &frozen);

/// The cut with exactly these values (names or aliases, joined by '+'). Throws UsageError that says
/// why not: unknown value, not frozen, or it does not separate the input from the output.
Cut find_cut(const Graph &graph, const std::vector<bool> &frozen, const std::string &name);

/// The legal cut after which no frozen node is left: where features are cached between epochs.
Cut deepest_cut(const Graph &graph, const std::vector<bool> &frozen);

} // namespace tl::graph
