// Control flow, calls, attributes, lists and tuples. Operators: interpreter_operators.cpp.
#include "model/interpreter.h"

#include "cli/error.h"
#include "model/operators.h"

#include <torch/script.h>

namespace tl::model {

namespace {
using torch::jit::Block;
using torch::jit::Value;
namespace attr = torch::jit::attr;
namespace prim = torch::jit::prim;
namespace aten = torch::jit::aten;

constexpr int kMaxDepth = 200;
constexpr std::int64_t kMaxIterations = 100000;

bool is_list_of(const Known &known) { return known.items && !known.tuple; }
} // namespace

void Interpreter::refuse(const std::string &why) const {
  throw FormatError(path_ + ": " + place() + ": " + why);
}

void Interpreter::add_parameter(const std::string &name, const at::Tensor &tensor, bool buffer) {
  const auto leaf = recorder_.parameter(name, tensor.detach(), buffer);
  tensors_[tensor.unsafeGetTensorImpl()] = leaf;
}

void Interpreter::add_module(const c10::ivalue::Object *object, const std::string &path, bool container) {
  modules_.try_emplace(object, Module{path, container}); // a shared module keeps its first name
}

Known Interpreter::constant(c10::IValue value) const {
  if (value.isTuple()) {
    Known tuple{nullptr, std::make_shared<std::vector<Known>>(), true};
    for (const auto &element : value.toTupleRef().elements()) tuple.items->push_back(constant(element));
    return tuple;
  }
  if (value.isList()) {
    Known list{nullptr, std::make_shared<std::vector<Known>>(), false};
    for (const c10::IValue &element : value.toListRef()) list.items->push_back(constant(element));
    return list;
  }
  auto leaf = std::make_shared<Leaf>();
  leaf->run[0] = leaf->run[1] = std::move(value);
  return {leaf, nullptr, false};
}

Known Interpreter::call_method(const c10::IValue &self, torch::jit::Function &function,
                               std::vector<Known> arguments) {
  if (++depth_ > kMaxDepth) refuse("calls are nested deeper than " + std::to_string(kMaxDepth));
  const std::string caller = module_;
  const auto known = self.isObject() ? modules_.find(&self.toObjectRef()) : modules_.end();
  // Tracing numbers the second use of one module: forward1.
  const bool enters_module = known != modules_.end() &&
                             function.name().find_first_not_of("0123456789", 7) == std::string::npos &&
                             function.name().compare(0, 7, "forward") == 0;
  if (known != modules_.end()) module_ = known->second.path;
  const std::size_t first_node = recorder_.nodes();
  arguments.insert(arguments.begin(), constant(self));
  std::vector<Known> outputs = run(*torch::jit::toGraphFunction(function).graph(), std::move(arguments));
  if (enters_module && outputs.size() == 1 && outputs[0].leaf)
    recorder_.name(*outputs[0].leaf, known->second.path, known->second.container, first_node);
  module_ = caller;
  --depth_;
  return outputs.at(0);
}

std::vector<Known> Interpreter::run(const torch::jit::Graph &graph, std::vector<Known> arguments) {
  Environment values;
  for (std::size_t i = 0; i < arguments.size(); ++i) values[graph.inputs()[i]] = arguments[i];
  frames_.push_back(&values);
  run_block(graph.block(), values);
  frames_.pop_back();
  std::vector<Known> outputs;
  for (const Value *output : graph.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

void Interpreter::run_block(const Block *block, Environment &values) {
  for (Node *node : const_cast<Block *>(block)->nodes()) { // LibTorch has no const iteration
    check_interrupt();
    run_node(node, values);
    // Forget what is not read again: it frees the probe's memory, and an in-place operator may then
    // write to what was shared.
    for (const Value *input : node->inputs()) {
      if (input->node()->owningBlock() != block) continue;
      bool read_later = false;
      for (const auto &use : input->uses())
        read_later = read_later || (use.user != node && !use.user->isBefore(node));
      if (!read_later) values.erase(input);
    }
  }
}

void Interpreter::run_node(Node *node, Environment &values) {
  operator_ = node->kind().toQualString();
  if (run_control(node, values) || run_structure(node, values)) return;
  run_operator(node, values);
}

bool Interpreter::run_control(Node *node, Environment &values) {
  const auto kind = node->kind();
  if (kind == prim::Constant) {
    if (node->output()->type()->cast<c10::FunctionType>()) return true; // read by prim::CallFunction
    c10::IValue literal = *torch::jit::toIValue(node->output());
    if (literal.isTensor())
      literal = literal.toTensor().clone(); // an in-place operator must not reach the file's
    values[node->output()] = constant(literal);
  } else if (kind == prim::GetAttr) {
    values[node->output()] = attribute(values.at(node->input()).leaf->run[0], node->s(attr::name));
  } else if (kind == prim::SetAttr) {
    refuse("the model writes to its own attribute '" + node->s(attr::name) + "' while it runs");
  } else if (kind == prim::CallMethod) {
    const c10::IValue self = values.at(node->input(0)).leaf->run[0];
    std::vector<Known> arguments;
    for (std::size_t i = 1; i < node->inputs().size(); ++i) arguments.push_back(values.at(node->input(i)));
    auto &function = self.type()->expect<c10::ClassType>()->getMethod(node->s(attr::name));
    values[node->output()] = call_method(self, function, std::move(arguments));
  } else if (kind == prim::CallFunction) {
    auto &function = *node->input(0)->type()->expect<c10::FunctionType>()->function();
    if (++depth_ > kMaxDepth) refuse("calls are nested deeper than " + std::to_string(kMaxDepth));
    std::vector<Known> arguments;
    for (std::size_t i = 1; i < node->inputs().size(); ++i) arguments.push_back(values.at(node->input(i)));
    values[node->output()] = run(*torch::jit::toGraphFunction(function).graph(), std::move(arguments)).at(0);
    --depth_;
  } else if (kind == prim::If) {
    run_if(node, values);
  } else if (kind == prim::Loop) {
    run_loop(node, values);
  } else if (kind == prim::RaiseException) {
    const c10::IValue message = values.at(node->input(0)).leaf->run[0];
    refuse("the model refuses its input: " + (message.isString() ? message.toStringRef() : std::string()));
  } else if (kind == prim::Print || kind == aten::warn) {
    // No effect on the result.
  } else if (kind == aten::format) { // only ever the text of an exception or a warning
    values[node->output()] = constant(std::string("(details in the model's source)"));
  } else {
    return false;
  }
  return true;
}

c10::IValue Interpreter::decided(const Known &known, const char *what) const {
  if (!known.leaf) refuse(std::string(what) + " is not a single value");
  if (known.leaf->data)
    refuse(std::string(what) + " depends on the data: a graph without branches cannot hold it");
  if (known.leaf->operand && known.leaf->run[0] != known.leaf->run[1])
    refuse(std::string(what) + " depends on the batch size");
  return known.leaf->run[0];
}

void Interpreter::run_if(Node *node, Environment &values) {
  const bool condition = decided(values.at(node->input()), "a branch").toBool();
  const Block *block = node->blocks().at(condition ? 0 : 1);
  run_block(block, values);
  for (std::size_t i = 0; i < node->outputs().size(); ++i)
    values[node->output(i)] = values.at(block->outputs()[i]);
}

void Interpreter::run_loop(Node *node, Environment &values) {
  const std::int64_t limit = decided(values.at(node->input(0)), "the length of a loop").toInt();
  bool more = decided(values.at(node->input(1)), "the condition of a loop").toBool();
  const Block *body = node->blocks().at(0);
  std::vector<Known> carried;
  for (std::size_t i = 2; i < node->inputs().size(); ++i) carried.push_back(values.at(node->input(i)));
  for (std::int64_t turn = 0; more && turn < limit; ++turn) {
    if (turn == kMaxIterations) refuse("a loop runs more than " + std::to_string(kMaxIterations) + " times");
    values[body->inputs()[0]] = constant(turn);
    for (std::size_t i = 0; i < carried.size(); ++i) values[body->inputs()[i + 1]] = carried[i];
    run_block(body, values);
    more = decided(values.at(body->outputs()[0]), "the condition of a loop").toBool();
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = values.at(body->outputs()[i + 1]);
  }
  for (std::size_t i = 0; i < carried.size(); ++i) values[node->output(i)] = carried[i];
}

Known Interpreter::attribute(const c10::IValue &object, const std::string &name) {
  const c10::IValue value = object.toObjectRef().getAttr(name);
  if (!value.isTensor() || !value.toTensor().defined()) return constant(value);
  const at::Tensor tensor = value.toTensor();
  auto &leaf = tensors_[tensor.unsafeGetTensorImpl()];
  if (!leaf) { // a plain tensor attribute: neither parameter nor buffer, but part of the model all the same
    const std::string where = module_.empty() ? name : module_ + "." + name;
    leaf = recorder_.parameter(where, tensor.detach(), true);
  }
  return {leaf, nullptr, false};
}

bool Interpreter::run_structure(Node *node, Environment &values) {
  const auto kind = node->kind();
  if (kind == prim::TupleConstruct || kind == prim::ListConstruct) {
    Known made{nullptr, std::make_shared<std::vector<Known>>(), kind == prim::TupleConstruct};
    for (const Value *input : node->inputs()) made.items->push_back(values.at(input));
    values[node->output()] = made;
    return true;
  }
  if (kind == prim::TupleUnpack || kind == prim::ListUnpack) {
    const Known from = values.at(node->input());
    if (!from.items || from.items->size() != node->outputs().size())
      refuse("unpacks a list of another length");
    for (std::size_t i = 0; i < node->outputs().size(); ++i) values[node->output(i)] = (*from.items)[i];
    return true;
  }
  if (kind == prim::TupleIndex) {
    const Known from = values.at(node->input(0));
    auto index = decided(values.at(node->input(1)), "the index of a tuple").toInt();
    if (index < 0) index += static_cast<std::int64_t>(from.items->size());
    values[node->output()] = from.items->at(static_cast<std::size_t>(index));
    return true;
  }
  if (kind == prim::unchecked_cast || kind == prim::unchecked_unwrap_optional ||
      kind == aten::_unwrap_optional) {
    values[node->output()] = values.at(node->input());
    return true;
  }
  if (kind == prim::isinstance) {
    const c10::TypePtr type = value_of(values.at(node->input()), 0, node->input()->type()).type();
    bool is = false;
    for (const c10::TypePtr &candidate : node->tys(attr::types)) is = is || type->isSubtypeOf(*candidate);
    values[node->output()] = constant(is);
    return true;
  }
  if (kind == prim::Uninitialized) {
    values[node->output()] = constant(c10::IValue());
    return true;
  }
  if (kind == prim::DictConstruct || kind == prim::CreateObject || kind == prim::Enter || kind == prim::fork)
    refuse("dictionaries, objects, contexts and parallel calls are not supported in forward()");
  return run_list_operator(node, values, operator_);
}

/// Operators on lists that are followed element by element. False: not one of them.
bool Interpreter::run_list_operator(Node *node, Environment &values, const std::string &op) {
  if (node->inputs().empty() || !values.count(node->input(0)) || !is_list_of(values.at(node->input(0))))
    return false;
  const Known list = values.at(node->input(0));
  const auto size = static_cast<std::int64_t>(list.items->size());
  if (op == "aten::len") {
    values[node->output()] = constant(size);
  } else if (op == "aten::__getitem__") {
    auto index = decided(values.at(node->input(1)), "the index of a list").toInt();
    if (index < 0) index += size;
    if (index < 0 || index >= size) refuse("index out of the range of a list");
    values[node->output()] = (*list.items)[static_cast<std::size_t>(index)];
  } else if (op == "aten::_set_item") {
    const auto index = decided(values.at(node->input(1)), "the index of a list").toInt();
    const auto at = static_cast<std::size_t>(index < 0 ? index + size : index);
    if (at >= list.items->size()) refuse("index out of the range of a list");
    (*list.items)[at] = values.at(node->input(2));
    if (!node->outputs().empty()) values[node->output()] = list;
  } else if (op == "aten::append") {
    list.items->push_back(values.at(node->input(1)));
    if (!node->outputs().empty()) values[node->output()] = list;
  } else if (op == "aten::add" && values.count(node->input(1)) && is_list_of(values.at(node->input(1)))) {
    Known joined{nullptr, std::make_shared<std::vector<Known>>(*list.items), false};
    const Known right = values.at(node->input(1));
    joined.items->insert(joined.items->end(), right.items->begin(), right.items->end());
    values[node->output()] = joined;
  } else if (op == "aten::list") {
    values[node->output()] = {nullptr, std::make_shared<std::vector<Known>>(*list.items), false};
  } else if (op == "aten::slice") {
    const auto bound = [&](std::size_t i, std::int64_t otherwise) {
      const c10::IValue value = decided(values.at(node->input(i)), "the bounds of a slice");
      return value.isNone() ? otherwise : value.toInt();
    };
    std::int64_t start = bound(1, 0), end = bound(2, size);
    const std::int64_t step = bound(3, 1);
    if (step < 1) refuse("a slice with a negative step");
    if (start < 0) start += size;
    if (end < 0) end += size;
    Known part{nullptr, std::make_shared<std::vector<Known>>(), false};
    for (std::int64_t i = std::max<std::int64_t>(start, 0); i < std::min(end, size); i += step)
      part.items->push_back((*list.items)[static_cast<std::size_t>(i)]);
    values[node->output()] = part;
  } else {
    return false;
  }
  return true;
}

} // namespace tl::model
