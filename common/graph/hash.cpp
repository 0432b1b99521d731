// Merkle hashes of values: equal hash = equal value for equal records.
#include "graph/graph.h"

#include <cstring>

namespace tl::graph {

namespace {

void add_shape(Hasher &hasher, const Shape &shape) {
  hasher.add(static_cast<std::int64_t>(shape.size()));
  for (const std::int64_t size : shape) hasher.add(size);
}

void add_real(Hasher &hasher, double number) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  hasher.add(bits);
}

void add_constant(Hasher &hasher, const Graph &graph, const Constant &constant) {
  hasher.add(static_cast<std::int64_t>(constant.index())); // the type: 1, 1.0 and true differ
  if (const auto *flag = std::get_if<bool>(&constant))
    hasher.add(std::int64_t{*flag});
  else if (const auto *number = std::get_if<std::int64_t>(&constant))
    hasher.add(*number);
  else if (const auto *real = std::get_if<double>(&constant))
    add_real(hasher, *real);
  else if (const auto *text = std::get_if<std::string>(&constant))
    hasher.add(*text);
  else if (const auto *ints = std::get_if<std::vector<std::int64_t>>(&constant))
    add_shape(hasher, *ints);
  else if (const auto *reals = std::get_if<std::vector<double>>(&constant)) {
    hasher.add(static_cast<std::int64_t>(reals->size()));
    for (const double x : *reals) add_real(hasher, x);
  } else if (const auto *flags = std::get_if<std::vector<bool>>(&constant)) {
    hasher.add(static_cast<std::int64_t>(flags->size()));
    for (const bool x : *flags) hasher.add(std::int64_t{x});
  } else if (const auto *tensor = std::get_if<TensorIndex>(&constant)) {
    const TensorConstant &content = graph.constants[static_cast<std::size_t>(tensor->index)];
    hasher.add(name_of(content.dtype));
    add_shape(hasher, content.shape);
    hasher.add(content.content);
  }
}

void add_operand(Hasher &hasher, const Graph &graph, const Operand &operand) {
  hasher.add(static_cast<std::int64_t>(operand.kind));
  if (operand.kind == Operand::Kind::value) {
    hasher.add(graph.values[static_cast<std::size_t>(operand.index)].hash);
  } else if (operand.kind == Operand::Kind::parameter) {
    const Parameter &parameter = graph.parameters[static_cast<std::size_t>(operand.index)];
    hasher.add(std::int64_t{parameter.fresh});
    if (parameter.fresh) {
      hasher.add(parameter.name);
      add_shape(hasher, parameter.shape);
    } else {
      hasher.add(parameter.content);
    }
  } else {
    add_constant(hasher, graph, operand.constant);
  }
}

/// How many of a node's operands decide its result: trailing flags only choose among kernels.
/// aten::_convolution(.., groups, benchmark, deterministic, cudnn, tf32); aten::batch_norm(.., cudnn).
std::size_t deciding_operands(const Node &node) {
  if (node.op == "aten::_convolution" && node.inputs.size() > 9) return 9;
  if (node.op == "aten::batch_norm" && node.inputs.size() == 9) return 8;
  if (node.op == "aten::layer_norm" && node.inputs.size() == 6) return 5;
  return node.inputs.size();
}

} // namespace

void hash_node(Graph &graph, int index) {
  const Node &node = graph.nodes[static_cast<std::size_t>(index)];
  Hasher hasher;
  hasher.add(node.op);
  const std::size_t operands = deciding_operands(node);
  hasher.add(static_cast<std::int64_t>(operands));
  for (std::size_t i = 0; i < operands; ++i) add_operand(hasher, graph, node.inputs[i]);
  const Digest computation = hasher.digest();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    Hasher output;
    output.add(computation).add(static_cast<std::int64_t>(i));
    graph.values[static_cast<std::size_t>(node.outputs[i])].hash = output.digest();
  }
}

void compute_hashes(Graph &graph, const Digest &preprocessing) {
  Value &input = graph.values[0];
  Hasher hasher;
  hasher.add("input").add(preprocessing).add(name_of(input.dtype));
  add_shape(hasher, input.shape);
  input.hash = hasher.digest();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) hash_node(graph, static_cast<int>(n));
}

} // namespace tl::graph
