#include "model/program.h"

#include "cli/error.h"
#include "model/build.h"
#include "model/load.h"
#include "model/operators.h"
#include "model/tensors.h"

#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/frozen_graph_optimizations.h>
#include <torch/csrc/jit/passes/frozen_ops_to_mkldnn.h>
#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace tl::model {

namespace {
using graph::Operand;

[[noreturn]] void failed(const std::string &what, const c10::Error &error) {
  throw Error(what + ": " + first_line(error.what_without_backtrace()));
}

void execute(const torch::jit::Code &code, torch::jit::Stack &stack, const char *what) {
  try {
    torch::jit::InterpreterState(code).run(stack);
  } catch (const c10::Error &error) {
    failed(what, error);
  }
}

/// False where LibTorch 1.13's oneDNN pass computes wrong results: it applies these activations to the
/// raw buffer of the blocked layout, whose channels are padded to a multiple of 16, without the padding.
bool layout_is_safe(const graph::Graph &graph, const std::vector<int> &nodes) {
  static const std::set<std::string> activations = {"aten::hardtanh", "aten::hardswish", "aten::hardsigmoid",
                                                    "aten::relu6", "aten::clamp"};
  return std::all_of(nodes.begin(), nodes.end(), [&](int index) {
    const graph::Node &node = graph.nodes[static_cast<std::size_t>(index)];
    const Shape &shape = graph.values[static_cast<std::size_t>(node.outputs.at(0))].shape;
    return activations.count(node.op) == 0 || (!shape.empty() && shape[0] % 16 == 0);
  });
}

/// As a way of execution takes its tensors.
at::Tensor prepare(at::Tensor tensor, graph::Execution execution) {
  if (execution == graph::Execution::blocked || !tensor.is_floating_point()) return tensor;
  if (execution == graph::Execution::bf16) tensor = tensor.to(at::kBFloat16);
  return tensor.dim() == 4 ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
}

/// After batch-norms were folded, which must not be done in low precision.
void prepare_constants(torch::jit::Graph &graph, graph::Execution execution) {
  for (torch::jit::Node *node : graph.nodes()) {
    if (node->kind() != torch::jit::prim::Constant || !node->hasAttribute(torch::jit::attr::value) ||
        node->kindOf(torch::jit::attr::value) != torch::jit::AttributeKind::t)
      continue;
    node->t_(torch::jit::attr::value, prepare(node->t(torch::jit::attr::value), execution));
    node->output()->setType(c10::TensorType::get()); // its old type names the old layout and precision
  }
}
} // namespace

FrozenProgram::FrozenProgram(const Model &model, const std::vector<graph::ValueId> &inputs,
                             const std::vector<graph::ValueId> &outputs, graph::Execution execution)
    : graph_(std::make_shared<torch::jit::Graph>()), execution_(execution) {
  const auto parameter = [&](torch::jit::Graph &graph, int index) {
    const at::Tensor &tensor = model.parameters[static_cast<std::size_t>(index)];
    if (!tensor.defined())
      throw Error("parameter '" + model.graph.parameters[static_cast<std::size_t>(index)].name +
                  "' of the new head cannot be part of the frozen part");
    return graph.insertConstant(tensor.detach()); // a constant that requires a gradient would be refused
  };
  build(model, inputs, outputs, *graph_, parameter, nullptr);
  const std::vector<int> nodes = needed_nodes(model.graph, inputs, outputs);
  operators_ = static_cast<int>(nodes.size());
  torch::jit::OptimizeFrozenGraph(graph_);
  if (execution != graph::Execution::blocked)
    prepare_constants(*graph_, execution);
  else if (layout_is_safe(model.graph, nodes))
    torch::jit::ConvertFrozenOpsToMKLDNN(graph_);
  torch::jit::EliminateDeadCode(graph_);
  code_ = torch::jit::Code(graph_, "frozen");
}

std::vector<at::Tensor> FrozenProgram::run(const std::vector<at::Tensor> &inputs) const {
  std::vector<Tensor> results;
  {
    // oneDNN's layout is used only under inference mode: under NoGradGuard newer LibTorch refuses it.
    const c10::InferenceMode inference;
    torch::jit::Stack stack;
    for (const at::Tensor &input : inputs) stack.emplace_back(prepare(input, execution_));
    execute(code_, stack, "the frozen layers");
    for (const c10::IValue &output : stack) {
      const at::Tensor tensor = output.toTensor();
      const bool rounded = execution_ == graph::Execution::bf16 && tensor.scalar_type() == at::kBFloat16;
      results.push_back(from_torch(rounded ? tensor.to(at::kFloat) : tensor));
    }
  }
  // The same memory as ordinary tensors: autograd refuses those made under inference mode.
  std::vector<at::Tensor> outputs;
  for (const Tensor &result : results) outputs.push_back(to_torch(result));
  return outputs;
}

namespace {

/// Operators that gradients must pass through, but cannot.
void check_gradients(const Model &model, const std::vector<int> &nodes) {
  const std::vector<bool> frozen = graph::frozen(model.graph);
  for (const int index : nodes) {
    const graph::Node &node = model.graph.nodes[static_cast<std::size_t>(index)];
    if (!lacks_gradient(node.op) || frozen[static_cast<std::size_t>(node.outputs[0])]) continue;
    throw Error(
        model.path + ": " + node.module + ": " + node.op +
        " has no gradient, so nothing at or below it can "
        "be trained; train later layers only, or export the model with gradients enabled so that attention "
        "is not fused");
  }
}

} // namespace

TrainedProgram::TrainedProgram(const Model &model, const std::vector<graph::ValueId> &inputs)
    : graph_(std::make_shared<torch::jit::Graph>()) {
  const std::vector<int> nodes = needed_nodes(model.graph, inputs, {model.graph.output});
  check_gradients(model, nodes);
  std::vector<bool> statistics(model.graph.parameters.size());
  for (const int index : nodes) {
    const graph::Node &node = model.graph.nodes[static_cast<std::size_t>(index)];
    if (!graph::trains_batch_norm(model.graph, node)) continue;
    for (const std::size_t operand : {3, 4}) // running mean and variance
      if (node.inputs[operand].kind == Operand::Kind::parameter)
        statistics[static_cast<std::size_t>(node.inputs[operand].index)] = true;
  }
  std::vector<int> order; // parameters in the order of their inputs
  const auto parameter = [&](torch::jit::Graph &graph, int index) {
    order.push_back(index);
    torch::jit::Value *input = graph.addInput();
    input->setType(c10::TensorType::get());
    return input;
  };
  torch::jit::Value *training = graph_->addInput();
  training->setType(c10::BoolType::get());
  batch_statistics_ = build(model, inputs, {model.graph.output}, *graph_, parameter, training) > 0;
  for (const int index : order) {
    const auto i = static_cast<std::size_t>(index);
    if (!model.parameters[i].defined())
      throw Error("parameter '" + model.graph.parameters[i].name +
                  "' has no contents: call initialise() first");
    at::Tensor tensor = model.parameters[i].detach();
    if (model.graph.parameters[i].trainable) {
      tensor = tensor.clone().requires_grad_(true);
      trainable_.push_back(tensor);
      trainable_indexes_.push_back(index);
    } else if (statistics[i]) {
      tensor = tensor.clone();
      statistics_.push_back(tensor);
      statistics_indexes_.push_back(index);
    }
    arguments_.push_back(tensor);
  }
  code_ = torch::jit::Code(graph_, "trained");
}

at::Tensor TrainedProgram::run(const std::vector<at::Tensor> &inputs, bool training) const {
  torch::jit::Stack stack;
  stack.reserve(1 + inputs.size() + arguments_.size());
  stack.emplace_back(training);
  stack.insert(stack.end(), inputs.begin(), inputs.end());
  stack.insert(stack.end(), arguments_.begin(), arguments_.end());
  execute(code_, stack, "the trained layers");
  return stack.at(0).toTensor();
}

Model TrainedProgram::trained(const Model &model) const {
  Model result = model;
  const auto put = [&](const std::vector<int> &indexes, const std::vector<at::Tensor> &tensors) {
    for (std::size_t i = 0; i < indexes.size(); ++i) {
      const auto index = static_cast<std::size_t>(indexes[i]);
      result.parameters[index] = tensors[i].detach().clone();
      result.graph.parameters[index].content = hash_tensor(result.parameters[index]);
      result.graph.parameters[index].fresh = false;
    }
  };
  put(trainable_indexes_, trainable_);
  put(statistics_indexes_, statistics_);
  graph::compute_hashes(result.graph, result.preprocessing);
  return result;
}

} // namespace tl::model
