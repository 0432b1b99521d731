// A part of a graph made executable: from given values to other values.
#pragma once

#include "graph/execution.h"
#include "model/model.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <vector>

namespace tl::model {

/// Runs the frozen part from `inputs` to `outputs` with the parameters built in and the graph
/// optimised: batch-norm folded into convolutions, and what `execution` says. No autograd.
/// run() may be called from several threads at once.
class FrozenProgram {
public:
  /// Throws Error if an output needs a value that `inputs` do not determine.
  FrozenProgram(const Model &model, const std::vector<graph::ValueId> &inputs,
                const std::vector<graph::ValueId> &outputs,
                graph::Execution execution = graph::Execution::blocked);

  /// Tensors in the order of `inputs`, batch first; contiguous tensors in the order of `outputs`, of the
  /// types that the graph says, however they were computed. Throws Error if an operator cannot be run
  /// this way.
  std::vector<at::Tensor> run(const std::vector<at::Tensor> &inputs) const;

  /// Number of operators that run; 0 when every output is an input.
  int operators() const { return operators_; }

private:
  std::shared_ptr<torch::jit::Graph> graph_;
  torch::jit::Code code_;
  int operators_ = 0;
  graph::Execution execution_;
};

/// Runs the trained part from `inputs` to the graph's output with the parameters as leaves.
class TrainedProgram {
public:
  /// Copies the trainable parameters and the statistics of batch-norms that train, so that several
  /// programs can train from one model. Throws Error if a gradient would have to pass through an
  /// operator that has none (fused attention), naming it and what to do.
  TrainedProgram(const Model &model, const std::vector<graph::ValueId> &inputs);

  /// Logits (or whatever the output is). With `training`, batch-norms that train use the batch's
  /// statistics and update their running ones; autograd follows at::GradMode.
  at::Tensor run(const std::vector<at::Tensor> &inputs, bool training) const;

  /// Leaves to optimise, and their indexes in Model::graph.parameters.
  const std::vector<at::Tensor> &trainable() const { return trainable_; }
  const std::vector<int> &trainable_indexes() const { return trainable_indexes_; }
  /// Running statistics that run() updates, and their indexes: part of a checkpoint.
  const std::vector<at::Tensor> &statistics() const { return statistics_; }
  const std::vector<int> &statistics_indexes() const { return statistics_indexes_; }
  /// True if some batch-norm uses the batch's statistics: a batch of one record is then an error.
  bool needs_batch_of_two() const { return batch_statistics_; }

  /// The model with the trained contents in place of the old ones, and its hashes to match.
  Model trained(const Model &model) const;

private:
  std::shared_ptr<torch::jit::Graph> graph_;
  torch::jit::Code code_;
  std::vector<at::Tensor> arguments_; // every parameter the graph reads, after the inputs
  std::vector<at::Tensor> trainable_, statistics_;
  std::vector<int> trainable_indexes_, statistics_indexes_;
  bool batch_statistics_ = false;
};

} // namespace tl::model
