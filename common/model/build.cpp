#include "model/build.h"

#include "cli/error.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace tl::model {

namespace {
using graph::Operand;
using graph::ValueKind;
using torch::jit::Symbol;

c10::TypePtr type_of(ValueKind kind) {
  switch (kind) {
  case ValueKind::tensor:
    return c10::TensorType::get();
  case ValueKind::tensor_list:
    return c10::ListType::ofTensors();
  case ValueKind::integer:
    return c10::IntType::get();
  case ValueKind::real:
    return c10::FloatType::get();
  case ValueKind::boolean:
    return c10::BoolType::get();
  case ValueKind::integer_list:
    return c10::ListType::ofInts();
  }
  return c10::TensorType::get();
}

c10::IValue ivalue_of(const Model &model, const graph::Constant &constant) {
  struct Visitor {
    const Model &model;
    c10::IValue operator()(std::monostate) const { return {}; }
    c10::IValue operator()(bool b) const { return b; }
    c10::IValue operator()(std::int64_t i) const { return i; }
    c10::IValue operator()(double d) const { return d; }
    c10::IValue operator()(const std::string &s) const {
      if (s.compare(0, 7, "device:") == 0) return c10::Device(s.substr(7));
      return s;
    }
    c10::IValue operator()(const std::vector<std::int64_t> &v) const { return v; }
    c10::IValue operator()(const std::vector<double> &v) const { return v; }
    c10::IValue operator()(const std::vector<bool> &v) const {
      c10::List<bool> list;
      for (const bool b : v) list.push_back(b);
      return list;
    }
    c10::IValue operator()(graph::TensorIndex t) const {
      return model.constants[static_cast<std::size_t>(t.index)];
    }
  };
  return std::visit(Visitor{model}, constant);
}

class Builder {
public:
  Builder(const Model &model, torch::jit::Graph &target, const ParameterSource &parameter,
          torch::jit::Value *training)
      : model_(model), target_(target), parameter_(parameter), training_(training),
        values_(model.graph.values.size()), parameters_(model.graph.parameters.size()) {}

  void bind(graph::ValueId id, torch::jit::Value *value) { values_[static_cast<std::size_t>(id)] = value; }
  torch::jit::Value *value(graph::ValueId id) const { return values_[static_cast<std::size_t>(id)]; }

  void add(const graph::Node &node) {
    std::vector<torch::jit::Value *> inputs;
    for (const Operand &operand : node.inputs) inputs.push_back(operand_value(operand));
    if (graph::trains_batch_norm(model_.graph, node)) {
      if (training_) inputs[5] = training_;
      ++batch_norms_;
    }
    torch::jit::Node *made = target_.create(Symbol::fromQualString(node.op), inputs, node.outputs.size());
    target_.insertNode(made);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const graph::Value &output = model_.graph.values[static_cast<std::size_t>(node.outputs[i])];
      made->output(i)->setType(type_of(output.kind));
      bind(node.outputs[i], made->output(i));
    }
    if (node.op == "prim::ListConstruct" && feeds_index(node.outputs[0]))
      made->output()->setType(c10::ListType::create(c10::OptionalType::ofTensor()));
    if (node.op.compare(0, 6, "prim::") != 0 && !made->maybeOperator())
      throw Error(model_.path + ": " + node.module + ": operator " + node.op +
                  " does not take these operands in "
                  "this LibTorch");
  }

  int batch_norms() const { return batch_norms_; }

private:
  torch::jit::Value *operand_value(const Operand &operand) {
    const auto index = static_cast<std::size_t>(operand.index);
    if (operand.kind == Operand::Kind::value) return values_[index];
    if (operand.kind == Operand::Kind::constant)
      return target_.insertConstant(ivalue_of(model_, operand.constant));
    if (!parameters_[index]) parameters_[index] = parameter_(target_, operand.index);
    return parameters_[index];
  }

  /// aten::index wants a list of optional tensors, and schemas match by type.
  bool feeds_index(graph::ValueId list) const {
    for (const graph::Node &node : model_.graph.nodes)
      if (node.op == "aten::index" && node.inputs.size() > 1 && node.inputs[1].kind == Operand::Kind::value &&
          node.inputs[1].index == list)
        return true;
    return false;
  }

  const Model &model_;
  torch::jit::Graph &target_;
  const ParameterSource &parameter_;
  torch::jit::Value *training_;
  std::vector<torch::jit::Value *> values_;
  std::vector<torch::jit::Value *> parameters_;
  int batch_norms_ = 0;
};

} // namespace

std::vector<int> needed_nodes(const graph::Graph &graph, const std::vector<graph::ValueId> &inputs,
                              const std::vector<graph::ValueId> &outputs) {
  std::vector<bool> have(graph.values.size()), wanted(graph.nodes.size());
  for (const graph::ValueId id : inputs) have[static_cast<std::size_t>(id)] = true;
  std::vector<graph::ValueId> open(outputs.begin(), outputs.end());
  while (!open.empty()) {
    const auto id = static_cast<std::size_t>(open.back());
    open.pop_back();
    if (have[id]) continue;
    have[id] = true;
    const int producer = graph.values[id].node;
    if (producer < 0)
      throw Error("a value that crosses the cut is missing: '" + graph.values[id].name +
                  "' is needed as well");
    if (wanted[static_cast<std::size_t>(producer)]) continue;
    wanted[static_cast<std::size_t>(producer)] = true;
    for (const Operand &operand : graph.nodes[static_cast<std::size_t>(producer)].inputs)
      if (operand.kind == Operand::Kind::value) open.push_back(operand.index);
  }
  std::vector<int> nodes;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) nodes.push_back(static_cast<int>(i));
  return nodes;
}

int build(const Model &model, const std::vector<graph::ValueId> &inputs,
          const std::vector<graph::ValueId> &outputs, torch::jit::Graph &target,
          const ParameterSource &parameter, torch::jit::Value *training) {
  const std::vector<int> nodes = needed_nodes(model.graph, inputs, outputs);
  Builder builder(model, target, parameter, training);
  for (const graph::ValueId id : inputs) {
    torch::jit::Value *input = target.addInput();
    input->setType(c10::TensorType::get());
    builder.bind(id, input);
  }
  for (const int node : nodes) builder.add(model.graph.nodes[static_cast<std::size_t>(node)]);
  for (const graph::ValueId id : outputs) target.registerOutput(builder.value(id));
  return builder.batch_norms();
}

} // namespace tl::model
