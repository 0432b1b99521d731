// How values of any shape become vectors; a part of apply_scheme.
#pragma once

#include "graph/scheme.h"

namespace tl::graph {

/// What Pool::automatic means for this value.
Pool choose_pool(const Graph &graph, ValueId value);

/// True for an element-wise function of one tensor: a ReLU and its kin.
bool is_activation(const std::string &op);

/// True for a map [H, W, C] (as in Swin), false for [C, H, W]. Recognised by walking through
/// element-wise operators to one that knows: a convolution or a layer norm, a permutation.
bool channels_last(const Graph &graph, ValueId value);

} // namespace tl::graph
