#pragma once

#include "graph/graph.h"

namespace tl::graph {

/// Floating-point operations of a node for one record (a multiply-add counts as two). Exact for
/// convolutions, linear layers, matrix products and attention; one per output element elsewhere.
double flops(const Graph &graph, const Node &node);

/// Those and the bytes that the node reads and writes for one record: by this share, nodes that were timed
/// together divide their time.
double work(const Graph &graph, const Node &node);

} // namespace tl::graph
