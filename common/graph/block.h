// The blocks of a network: what "its last three blocks" means, whatever its modules are called.
#pragma once

#include "graph/graph.h"

#include <string>
#include <vector>

namespace tl::graph {

/// A part of the network with a module of its own. The module tree is followed downwards as long as a
/// module is a chain: exactly one tensor that parameters have shaped passes between each two of its parts
/// (so that masks and positions, which pass beside the network, do not matter). What is no chain is a block:
/// a residual block of ResNet or MobileNetV2, a dense block, an encoder layer. So is a module at the same
/// depth below the same grandparent (MobileNetV2's blocks without a shortcut), and, in what is a chain all
/// the way down (VGG), each layer. Layers that hold vectors only (normalisation), and what has no module of
/// its own (a class token), belong to the block before.
struct Block {
  std::string name;            // of the module: "layer4.2", "encoder.layers.11"
  std::vector<int> parameters; // indexes of those that train, ascending
  /// What the block gives to the next: the first tensor behind its module that alone passes on, or what a
  /// batch-norm and activations right behind that make of it; -1 if there is none.
  ValueId output = -1;
  int position = 0; // nodes before the place where the output is complete
};

/// Of the nodes [0, nodes), which compute `result`, in the order in which they run. Nodes must be in the
/// order in which the program ran, not reordered by apply_scheme().
std::vector<Block> find_blocks(const Graph &graph, int nodes, ValueId result);

/// Index of the first of the last `wanted` blocks; 0: of all. Throws UsageError, starting with `option`, if
/// there are fewer.
std::size_t first_of_last(const std::vector<Block> &blocks, std::int64_t wanted, const std::string &option);

} // namespace tl::graph
