#include "model/recorder.h"

#include "cli/error.h"
#include "model/tensors.h"

#include <torch/torch.h>

namespace tl::model {

using graph::Operand;
using graph::ValueKind;

Recorder::Recorder(const InputSpec &input, std::string path) {
  model_.path = std::move(path);
  graph::Value value;
  value.name = "input";
  value.dtype = input.dtype;
  value.shape = input.shape;
  model_.graph.values.push_back(value);
  names_.push_back({"input", {}, {}});
  used_.insert("input");
}

std::shared_ptr<Leaf> Recorder::parameter(const std::string &name, const at::Tensor &tensor, bool buffer) {
  auto leaf = std::make_shared<Leaf>();
  leaf->run[0] = leaf->run[1] = tensor;
  leaf->weights = true;
  // The same memory seen with the same shape is one parameter (tied weights).
  const void *key = tensor.numel() > 0 ? tensor.data_ptr() : tensor.unsafeGetTensorImpl();
  auto &parameters = model_.graph.parameters;
  const auto found = parameter_index_.find(key);
  if (found != parameter_index_.end() &&
      model_.parameters[static_cast<std::size_t>(found->second)].sizes() == tensor.sizes()) {
    parameters[static_cast<std::size_t>(found->second)].tied.push_back(name);
    leaf->operand = Operand::of_parameter(found->second);
    return leaf;
  }
  const int index = static_cast<int>(parameters.size());
  graph::Parameter parameter;
  parameter.name = name;
  parameter.dtype = dtype_of(tensor.scalar_type());
  parameter.shape = tensor.sizes().vec();
  parameter.buffer = buffer;
  parameter.content = hash_tensor(tensor);
  parameters.push_back(parameter);
  model_.parameters.push_back(tensor);
  parameter_index_[key] = index;
  leaf->operand = Operand::of_parameter(index);
  return leaf;
}

namespace {

/// True if the records that both runs share have equal results.
bool same_records(const at::Tensor &first, const at::Tensor &second) {
  const at::Tensor common = second.narrow(0, 0, first.size(0));
  if (!first.is_floating_point()) return at::equal(first, common);
  const at::Tensor a = first.to(at::kDouble), b = common.to(at::kDouble);
  const double scale = a.numel() ? a.abs().max().item<double>() : 0;
  // Not NaN: a network may produce infinities for random input, equal ones are fine.
  return at::allclose(a, b, 1e-3, 1e-4 * (std::isfinite(scale) ? scale : 0) + 1e-6, true);
}

} // namespace

ValueKind Recorder::describe(graph::Value &value, const c10::IValue &first, const c10::IValue &second,
                             bool data, const std::string &where) {
  if (first.isInt()) return ValueKind::integer;
  if (first.isDouble()) return ValueKind::real;
  if (first.isBool()) return ValueKind::boolean;
  if (first.isIntList()) return ValueKind::integer_list;
  if (first.isList()) return ValueKind::tensor_list;
  if (!first.isTensor())
    throw FormatError(where + ": a result of kind " + first.tagKind() + " is not supported");
  const at::Tensor &a = first.toTensor();
  const at::Tensor &b = second.toTensor();
  value.dtype = dtype_of(a.scalar_type());
  if (a.dim() != b.dim()) throw FormatError(where + ": the number of dimensions depends on the batch size");
  value.batched = data && a.dim() > 0 && a.size(0) == kProbeBatch[0] && b.size(0) == kProbeBatch[1];
  for (std::int64_t d = value.batched ? 1 : 0; d < a.dim(); ++d) {
    const bool grows = a.size(d) != b.size(d);
    if (value.batched && grows)
      throw FormatError(where +
                        ": more than one dimension grows with the batch: records are compared with each "
                        "other, so the model cannot be split by record");
    value.shape.push_back(grows ? a.size(d) / kProbeBatch[0] : a.size(d)); // for one record
  }
  if (value.batched && !same_records(a, b))
    throw FormatError(where + ": the result for a record depends on the other records of its batch "
                              "(batch statistics, or rows mixed by a reshape); such a model cannot be split. "
                              "Export it in evaluation mode");
  return ValueKind::tensor;
}

std::vector<std::shared_ptr<Leaf>>
Recorder::add(const std::string &op, const std::string &module, std::vector<Operand> inputs,
              const std::vector<std::pair<c10::IValue, c10::IValue>> &outputs, bool data, bool weights) {
  graph::Node node;
  node.op = op;
  node.module = module;
  node.inputs = std::move(inputs);
  const std::string plain = op.substr(op.find("::") + 2);
  const std::string base = module.empty() ? plain : module + "." + plain;
  std::vector<std::shared_ptr<Leaf>> leaves;
  for (const auto &[first, second] : outputs) {
    graph::Value value;
    value.node = static_cast<int>(nodes());
    value.batched = false;
    value.kind = describe(value, first, second, data, model_.path + ": " + base);
    const int id = static_cast<int>(model_.graph.values.size());
    model_.graph.values.push_back(std::move(value));
    names_.push_back({unique(base), {}, {}});
    node.outputs.push_back(id);
    auto leaf = std::make_shared<Leaf>();
    leaf->run[0] = first;
    leaf->run[1] = second;
    leaf->operand = Operand::of_value(id);
    leaf->data = data;
    leaf->weights = weights;
    leaves.push_back(leaf);
  }
  model_.graph.nodes.push_back(std::move(node));
  return leaves;
}

Operand Recorder::constant(const c10::IValue &value, const std::string &where) {
  if (value.isNone()) return Operand::of(std::monostate());
  if (value.isBool()) return Operand::of(value.toBool());
  if (value.isInt()) return Operand::of(value.toInt());
  if (value.isDouble()) return Operand::of(value.toDouble());
  if (value.isString()) return Operand::of(value.toStringRef());
  if (value.isDevice()) return Operand::of("device:" + value.toDevice().str());
  if (value.isIntList()) return Operand::of(value.toIntVector());
  if (value.isDoubleList()) return Operand::of(value.toDoubleVector());
  if (value.isBoolList()) {
    std::vector<bool> flags;
    for (const bool flag : value.toBoolList()) flags.push_back(flag);
    return Operand::of(std::move(flags));
  }
  if (value.isList() && value.toListRef().empty()) return Operand::of(std::vector<std::int64_t>());
  if (value.isTensor()) {
    const at::Tensor tensor = value.toTensor().contiguous();
    const Digest content = hash_tensor(tensor);
    const auto [entry, added] =
        constant_index_.try_emplace(content, static_cast<int>(model_.constants.size()));
    if (added) {
      model_.graph.constants.push_back({dtype_of(tensor.scalar_type()), tensor.sizes().vec(), content});
      model_.constants.push_back(tensor);
    }
    return Operand::of(graph::TensorIndex{entry->second});
  }
  throw FormatError(model_.path + ": " + where + ": a constant of kind " + value.tagKind() +
                    " is not supported");
}

std::string Recorder::unique(const std::string &base) {
  std::string name = base;
  int &count = counts_[base];
  do {
    ++count;
    name = count == 1 ? base : base + ":" + std::to_string(count);
  } while (!used_.insert(name).second);
  return name;
}

void Recorder::name(const Leaf &leaf, const std::string &path, bool container, std::size_t first_node) {
  if (!leaf.operand || leaf.operand->kind != Operand::Kind::value || path.empty()) return;
  const auto id = static_cast<std::size_t>(leaf.operand->index);
  const bool made_here = model_.graph.values[id].node >= static_cast<int>(first_node);
  // A second result of one module (a shared ReLU) is "path:2".
  auto &names = container || !made_here ? names_[id].aliases : names_[id].modules;
  names.push_back(unique(path));
}

Model Recorder::finish(const Leaf &output) {
  graph::Graph &graph = model_.graph;
  if (!output.operand || output.operand->kind != Operand::Kind::value)
    throw FormatError(model_.path + ": the output does not depend on the input");
  graph.output = output.operand->index;
  const graph::Value &last = graph.values[static_cast<std::size_t>(graph.output)];
  if (last.kind != ValueKind::tensor || !last.batched)
    throw FormatError(
        model_.path + ": the first dimension of the output is not the batch (" +
        std::to_string(kProbeBatch[0]) + " records gave " + to_string(last.shape) +
        "): the batch size was fixed when the model was traced; export it with sizes taken from "
        "x.size(0), or with torch.jit.script");
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    Names &names = names_[id];
    // The outermost module that computes the value says best what it is: "layer3.5", not its last ReLU.
    if (names.modules.empty())
      graph.values[id].name = names.own;
    else
      graph.values[id].name = names.modules.back(), names.modules.pop_back();
    auto &aliases = graph.values[id].aliases;
    aliases = std::move(names.modules);
    aliases.insert(aliases.end(), names.aliases.begin(), names.aliases.end());
  }
  return std::move(model_);
}

} // namespace tl::model
