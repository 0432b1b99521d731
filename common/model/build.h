// A part of a graph of values back into TorchScript's IR.
#pragma once

#include "model/model.h"

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>
#include <vector>

namespace tl::model {

/// Produces the IR value for a parameter (by index) at the current insertion point.
using ParameterSource = std::function<torch::jit::Value *(torch::jit::Graph &, int)>;

/// Adds to `target` the nodes that compute `outputs` from `inputs`: an input of the IR graph for each of
/// `inputs`, an output for each of `outputs`. `parameter` decides whether parameters are constants, inputs
/// or attributes of a module. Throws Error if an output needs the model's input although `inputs` does not
/// contain what it is computed from. `training` is the operand of batch-norms that train; null: they use
/// their running statistics, as in evaluation. Returns the number of batch-norms that train.
int build(const Model &model, const std::vector<graph::ValueId> &inputs,
          const std::vector<graph::ValueId> &outputs, torch::jit::Graph &target,
          const ParameterSource &parameter, torch::jit::Value *training);

/// The nodes that `outputs` need beyond `inputs`, in order.
std::vector<int> needed_nodes(const graph::Graph &graph, const std::vector<graph::ValueId> &inputs,
                              const std::vector<graph::ValueId> &outputs);

} // namespace tl::model
