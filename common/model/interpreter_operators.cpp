// Running one operator in both runs, and writing it down.
#include "model/interpreter.h"

#include "cli/error.h"
#include "model/operators.h"

#include <torch/script.h>

#include <functional>

namespace tl::model {

namespace {
using graph::Operand;
namespace aten = torch::jit::aten;

c10::TypePtr without_optional(const c10::TypePtr &type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

/// Calls `visit` for every leaf in `known`.
void each_leaf(const Known &known, const std::function<void(const Leaf &)> &visit) {
  if (known.leaf) visit(*known.leaf);
  if (known.items)
    for (const Known &item : *known.items) each_leaf(item, visit);
}

bool writes_to_input(const torch::jit::Node *node) {
  const torch::jit::Operator *op = node->maybeOperator();
  return op && op->schema().is_mutable();
}

/// Equal numbers, flags, texts or tensors.
bool equal(const c10::IValue &a, const c10::IValue &b) {
  if (a.isTensor() && b.isTensor())
    return a.toTensor().sizes() == b.toTensor().sizes() && at::equal(a.toTensor(), b.toTensor());
  return a.tagKind() == b.tagKind() && a == b;
}
} // namespace

c10::IValue Interpreter::value_of(const Known &known, int run, const c10::TypePtr &type) const {
  if (known.leaf) return known.leaf->run[run];
  if (known.tuple) {
    std::vector<c10::IValue> elements;
    for (const Known &item : *known.items) elements.push_back(value_of(item, run, c10::AnyType::get()));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  const auto list_type = without_optional(type)->cast<c10::ListType>();
  c10::TypePtr element = list_type ? list_type->getElementType() : nullptr;
  if (!element && !known.items->empty())
    element = value_of(known.items->front(), run, c10::AnyType::get()).type();
  c10::impl::GenericList list(element ? element : c10::TypePtr(c10::IntType::get()));
  for (const Known &item : *known.items) list.push_back(value_of(item, run, list.elementType()));
  return list;
}

Operand Interpreter::operand_of(const Known &known, const c10::TypePtr &type) {
  if (known.leaf)
    return known.leaf->operand ? *known.leaf->operand : recorder_.constant(known.leaf->run[0], place());
  if (known.tuple) refuse("a tuple as operand is not supported");
  bool literal = true;
  each_leaf(known, [&](const Leaf &leaf) { literal = literal && !leaf.operand && !leaf.run[0].isTensor(); });
  if (literal) return recorder_.constant(value_of(known, 0, type), place());
  std::vector<Operand> inputs;
  bool data = false, weights = false;
  each_leaf(known, [&](const Leaf &leaf) {
    data = data || leaf.data;
    weights = weights || leaf.weights;
  });
  for (const Known &item : *known.items) inputs.push_back(operand_of(item, c10::AnyType::get()));
  const auto made = recorder_.add("prim::ListConstruct", module_, std::move(inputs),
                                  {{value_of(known, 0, type), value_of(known, 1, type)}}, data, weights);
  return *made.front()->operand;
}

void Interpreter::run_operator(Node *node, Environment &values) {
  const std::string op = operator_;
  if (touches_files(op)) refuse("the operator reaches outside the model (files, Python or other processes)");
  if (is_dropout(op)) {
    // torchvision's Swin leaves the flag on, with probability 0.
    if (decided(values.at(node->input(2)), "dropout's training flag").toBool() &&
        decided(values.at(node->input(1)), "dropout's probability").toDouble() != 0)
      refuse("dropout was traced in training mode: results would be random; call eval() before the export");
    values[node->output()] = values.at(node->input(0));
    return;
  }
  if (is_random(op)) refuse("the operator draws random numbers: equal records would get different features");
  if (op == "aten::batch_norm" && decided(values.at(node->input(5)), "batch-norm's training flag").toBool())
    refuse("batch-norm was traced in training mode, so a record's result depends on its batch; call eval() "
           "before "
           "the export");
  if (op == "aten::is_grad_enabled" || op == "prim::requires_grad") {
    // Choose the code path of training: fused inference operators have no gradient.
    values[node->output()] = constant(true);
    return;
  }
  const std::string functional = functional_name(op);
  if (!functional.empty() || writes_to_input(node)) {
    run_in_place(node, values, functional);
    return;
  }
  std::vector<Known> inputs;
  for (const torch::jit::Value *input : node->inputs()) inputs.push_back(values.at(input));
  if ((op == "aten::Int" || op == "aten::IntImplicit" || op == "aten::ScalarImplicit") && inputs[0].leaf &&
      inputs[0].leaf->number) { // traced code turns sizes into tensors and back
    values[node->output()] = {inputs[0].leaf->number, nullptr, false};
    return;
  }
  std::vector<Known> outputs = execute(node, inputs, op);
  for (std::size_t i = 0; i < outputs.size(); ++i) values[node->output(i)] = outputs[i];
  if (op == "prim::NumToTensor" && outputs[0].leaf) outputs[0].leaf->number = inputs[0].leaf;
}

/// An operator that fills in a constant (Swin's attention mask, slice by slice) is just run: the slices
/// are views of one tensor, so all of them see it.
bool Interpreter::run_on_constants(Node *node, Environment &values) {
  std::vector<c10::IValue> stack;
  bool constants = true;
  for (const torch::jit::Value *input : node->inputs()) {
    const Known known = values.at(input);
    each_leaf(known, [&](const Leaf &leaf) { constants = constants && !leaf.operand; });
    stack.push_back(value_of(known, 0, input->type()));
  }
  if (!constants || !node->maybeOperator()) return false;
  node->getOperation()(stack);
  if (!node->outputs().empty()) values[node->output()] = values.at(node->input(0));
  return true;
}

void Interpreter::run_in_place(Node *node, Environment &values, const std::string &functional) {
  if (values.at(node->input(0)).items) refuse("changes a list in a way that is not supported");
  if (run_on_constants(node, values)) return;
  if (functional.empty()) refuse("writes into an existing tensor, which cannot be undone safely");
  const Known target = values.at(node->input(0));
  if (!target.leaf || (target.leaf->operand && target.leaf->operand->kind == Operand::Kind::parameter))
    refuse(
        "the model changes its own parameters or statistics while it runs (a trace in training mode?); call "
        "eval() before the export");
  std::vector<Known> inputs;
  for (const torch::jit::Value *input : node->inputs()) inputs.push_back(values.at(input));
  Node *pure = node->owningGraph()->create(torch::jit::Symbol::fromQualString(functional), node->inputs(),
                                           node->outputs().size());
  if (!pure->maybeOperator()) {
    pure->destroy();
    refuse("writes into an existing tensor, which cannot be undone safely");
  }
  check_not_aliased(*target.leaf, values);
  std::vector<Known> outputs;
  try {
    outputs = execute(pure, inputs, functional);
  } catch (...) {
    pure->destroy();
    throw;
  }
  pure->destroy();
  *target.leaf = *outputs.at(0).leaf; // everything that shares the leaf now sees the new value
  if (!node->outputs().empty()) values[node->output()] = target;
}

void Interpreter::check_not_aliased(const Leaf &leaf, const Environment &values) const {
  if (!leaf.run[0].isTensor()) return;
  const at::Tensor &tensor = leaf.run[0].toTensor();
  const auto check = [&](const Leaf &other) {
    if (&other != &leaf && other.run[0].isTensor() && other.run[0].toTensor().defined() &&
        other.run[0].toTensor().has_storage() && tensor.is_alias_of(other.run[0].toTensor()))
      refuse(
          "writes in place to a tensor that another one is a view of; the result cannot be followed safely");
  };
  for (const Environment *frame : frames_)
    for (const auto &entry : *frame) each_leaf(entry.second, check);
  for (const auto &entry : values) each_leaf(entry.second, check);
}

std::vector<Known> Interpreter::execute(Node *node, const std::vector<Known> &inputs, const std::string &op) {
  if (!node->maybeOperator()) refuse("unknown operator");
  torch::jit::Operation operation = node->getOperation();
  std::vector<c10::IValue> results[2];
  for (int run = 0; run < 2; ++run) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      results[run].push_back(value_of(inputs[i], run, node->input(i)->type()));
    operation(results[run]);
  }
  bool data = false, weights = false, dynamic = false, reads_tensor = false;
  for (const Known &input : inputs)
    each_leaf(input, [&](const Leaf &leaf) {
      data = data || leaf.data;
      weights = weights || leaf.weights;
      dynamic = dynamic || leaf.operand;
      reads_tensor = reads_tensor || (leaf.data && leaf.run[0].isTensor());
    });
  if (reads_metadata_only(op)) data = weights = reads_tensor = false;
  std::vector<std::pair<c10::IValue, c10::IValue>> outputs;
  bool constants = true, same_input = false;
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    outputs.emplace_back(results[0][i], results[1][i]);
    const c10::IValue &first = outputs.back().first;
    const bool tensor = first.isTensor() || first.isTensorList();
    if (!tensor && reads_tensor)
      refuse("reads a number out of the data: the graph would depend on the records");
    constants = constants && (tensor ? !weights && !data && equal(first, outputs.back().second)
                                     : equal(first, outputs.back().second));
    same_input = first.isTensor() && inputs[0].leaf && inputs[0].leaf->run[0].isTensor() &&
                 first.toTensor().is_same(inputs[0].leaf->run[0].toTensor());
  }
  std::vector<Known> known;
  if (same_input && outputs.size() == 1 && op != "aten::contiguous") // a conversion that changes nothing
    return {inputs[0]};
  if (constants || !dynamic) {
    for (const auto &output : outputs) known.push_back(constant(output.first));
    return known;
  }
  return record(op, node, inputs, outputs, data, weights);
}

std::vector<Known> Interpreter::record(const std::string &op, Node *node, const std::vector<Known> &inputs,
                                       const std::vector<std::pair<c10::IValue, c10::IValue>> &outputs,
                                       bool data, bool weights) {
  if (outputs.size() == 1 && outputs[0].first.isIntList())
    return {sizes(inputs, outputs[0].first, outputs[0].second)};
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    operands.push_back(operand_of(inputs[i], node->input(i)->type()));
  std::string name = op;
  if (op == "aten::view" && operands.size() == 2) {
    name = "aten::reshape"; // the same values, whatever the layout of its input
  } else if (op == "aten::_convolution" && std::get_if<bool>(&operands[6].constant) &&
             !std::get<bool>(operands[6].constant) && outputs[0].first.toTensor().dim() == 4) {
    // Tracing records the general form; give it the name and operands that scripting gives.
    name = "aten::conv2d";
    operands = {operands[0], operands[1], operands[2], operands[3], operands[4], operands[5], operands[8]};
  }
  std::vector<Known> known;
  const auto leaves = recorder_.add(name, module_, std::move(operands), outputs, data, weights);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Known made{leaves[i], nullptr, false};
    known.push_back(outputs[i].first.isList()
                        ? unpack_list(made, outputs[i].first, outputs[i].second, data, weights)
                        : made);
  }
  return known;
}

Known Interpreter::unpack_list(const Known &list, const c10::IValue &first, const c10::IValue &second,
                               bool data, bool weights) {
  const auto a = first.toListRef(), b = second.toListRef();
  if (a.size() != b.size()) refuse("the length of a list depends on the batch size");
  std::vector<std::pair<c10::IValue, c10::IValue>> elements;
  for (std::size_t i = 0; i < a.size(); ++i) elements.emplace_back(a[i], b[i]);
  Known unpacked{nullptr, std::make_shared<std::vector<Known>>(), false};
  for (const auto &leaf :
       recorder_.add("prim::ListUnpack", module_, {*list.leaf->operand}, elements, data, weights))
    unpacked.items->push_back({leaf, nullptr, false});
  return unpacked;
}

/// The sizes of a tensor as a list: those that do not depend on the batch are constants.
Known Interpreter::sizes(const std::vector<Known> &inputs, const c10::IValue &first,
                         const c10::IValue &second) {
  if (operator_ != "aten::size") refuse("a list of numbers that depends on the batch size");
  Known list{nullptr, std::make_shared<std::vector<Known>>(), false};
  const auto a = first.toIntVector(), b = second.toIntVector();
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (a[d] == b[d]) {
      list.items->push_back(constant(a[d]));
      continue;
    }
    const Operand dimension = Operand::of(static_cast<std::int64_t>(d));
    const auto made =
        recorder_.add("aten::size", module_, {operand_of(inputs[0], c10::TensorType::get()), dimension},
                      {{a[d], b[d]}}, false, false);
    list.items->push_back({made.front(), nullptr, false});
  }
  return list;
}

} // namespace tl::model
