#include "profile/training.h"

#include "cli/error.h"
#include "model/load.h"

#include <torch/torch.h>

#include <string>

namespace tl::profile {

namespace {

graph::ValueId add_scalar(graph::Graph &graph, const std::string &op, std::vector<graph::Operand> operands) {
  const auto id = static_cast<graph::ValueId>(graph.values.size());
  graph::Value value;
  value.name = "sum:" + std::to_string(id);
  value.batched = false;
  value.node = static_cast<int>(graph.nodes.size());
  graph.values.push_back(value);
  graph.nodes.push_back({op, "", std::move(operands), {id}});
  return id;
}

/// The model with the sum of all elements of `outputs` as its output, everything trainable.
model::Model with_sum(const model::Model &model, const std::vector<graph::ValueId> &outputs) {
  model::Model result = model;
  graph::Graph &graph = result.graph;
  for (graph::Parameter &parameter : graph.parameters)
    parameter.trainable = !parameter.buffer && parameter.dtype == DType::f32;
  graph::ValueId total = -1;
  for (const graph::ValueId output : outputs) {
    const graph::ValueId sum =
        add_scalar(graph, "aten::sum", {graph::Operand::of_value(output), graph::Operand::of({})});
    total = total < 0 ? sum
                      : add_scalar(graph, "aten::add",
                                   {graph::Operand::of_value(total), graph::Operand::of_value(sum),
                                    graph::Operand::of(std::int64_t{1})});
  }
  graph.output = total;
  return result;
}

} // namespace

TrainingStep::TrainingStep(const model::Model &model, const graph::Cut &from, const graph::Cut &to) {
  for (const graph::ValueId id : from.values)
    passes_gradient_.push_back(id != 0 &&
                               model.graph.values[static_cast<std::size_t>(id)].dtype == DType::f32);
  program_.emplace(with_sum(model, to.values), from.values);
}

void TrainingStep::run(const std::vector<at::Tensor> &inputs) {
  const at::AutoGradMode gradients(true);
  std::vector<at::Tensor> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    leaves.push_back(inputs[i].detach().requires_grad_(passes_gradient_[i]));
  // Batch statistics of one record may not exist.
  const bool batch_statistics = inputs.at(0).size(0) > 1;
  try {
    const at::Tensor loss = program_->run(leaves, batch_statistics);
    if (loss.requires_grad()) loss.backward();
  } catch (const c10::Error &error) {
    throw Error("a training step: " + model::first_line(error.what_without_backtrace()));
  }
  for (const at::Tensor &parameter : program_->trainable()) parameter.mutable_grad().reset();
}

} // namespace tl::profile
