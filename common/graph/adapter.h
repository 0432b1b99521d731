// Bottleneck adapters in a graph; a part of apply_scheme.
#pragma once

#include "graph/block.h"
#include "graph/scheme.h"

namespace tl::graph {

/// Puts an adapter behind the output of each of the last blocks: all that reads the output from there on
/// reads the adapter's instead. The adapter behind block i of `blocks` has parameters
/// "adapters.i.down.weight", ..., and all of them are fresh. Throws UsageError if there are fewer blocks, or
/// if an output is neither a vector, a sequence of vectors nor a map.
void add_adapters(Graph &graph, const Adapters &adapters, const std::vector<Block> &blocks);

} // namespace tl::graph
