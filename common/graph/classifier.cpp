// Finds the classifier that a new head replaces.
#include "graph/scheme.h"

#include "runtime/at.h"

#include <algorithm>
#include <array>

namespace tl::graph {

namespace {

/// Follows the operators that apply parameters to data, in a graph whose weights may be reshaped
/// (`aten::t(weight)`) before they are used.
struct Reader {
  const Graph &graph;
  std::vector<bool> depends = depends_on_input(graph);
  std::vector<bool> holds_parameter = std::vector<bool>(graph.values.size(), false);

  explicit Reader(const Graph &g) : graph(g) {
    for (const Node &node : graph.nodes)
      for (const ValueId out : node.outputs)
        holds_parameter[at(out)] = !depends[at(out)] && reads_parameter(node);
  }

  bool reads_parameter(const Node &node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Operand &operand) {
      return operand.kind == Operand::Kind::parameter ||
             (operand.kind == Operand::Kind::value && holds_parameter[at(operand.index)]);
    });
  }

  bool is_data(const Operand &operand) const {
    return operand.kind == Operand::Kind::value && depends[at(operand.index)];
  }

  /// The one operand that depends on the input; -1 if there are several.
  ValueId only_data(const Node &node) const {
    ValueId found = -1;
    for (const Operand &operand : node.inputs) {
      if (!is_data(operand)) continue;
      if (found >= 0 && found != operand.index) return -1;
      found = operand.index;
    }
    return found;
  }

  int last_with_parameters() const {
    for (int n = static_cast<int>(graph.nodes.size()); n-- > 0;) {
      const Node &node = graph.nodes[at(n)];
      if (!node.outputs.empty() && depends[at(node.outputs[0])] && reads_parameter(node)) return n;
    }
    return -1;
  }

  /// True if everything that the output needs of the data passes through node `n`.
  bool alone(int n) const {
    std::vector<bool> known = depends;
    known.flip();
    for (const ValueId out : graph.nodes[at(n)].outputs) known[at(out)] = true;
    for (std::size_t later = at(n) + 1; later < graph.nodes.size(); ++later) {
      const Node &node = graph.nodes[later];
      const bool all = std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Operand &operand) {
        return operand.kind != Operand::Kind::value || known[at(operand.index)];
      });
      if (all)
        for (const ValueId out : node.outputs) known[at(out)] = true;
    }
    return known[at(graph.output)];
  }
};

bool is_product(const Node &node) {
  return node.op == "aten::linear" || node.op == "aten::addmm" || node.op == "aten::matmul" ||
         node.op == "aten::mm";
}

bool is_1x1_convolution(const Graph &graph, const Node &node) {
  if (node.op != "aten::conv2d" && node.op != "aten::_convolution") return false;
  if (node.inputs.size() < 2 || node.inputs[1].kind != Operand::Kind::parameter) return false;
  const Shape &weight = graph.parameters[at(node.inputs[1].index)].shape;
  return weight.size() == 4 && weight[2] == 1 && weight[3] == 1;
}

bool named_like_classifier(const std::string &module) {
  static const std::array<std::string, 8> names = {"classifier", "fc",     "head",        "heads",
                                                   "logits",     "output", "last_linear", "predictions"};
  std::size_t begin = 0;
  for (;;) { // any component of the path: "classifier.1"
    const std::size_t dot = module.find('.', begin);
    if (std::count(names.begin(), names.end(), module.substr(begin, dot - begin))) return true;
    if (dot == std::string::npos) return false;
    begin = dot + 1;
  }
}

/// A bias added after a product without one: x @ W + b. The product, or -1.
int product_before_bias(const Reader &reader, int n) {
  const Node &node = reader.graph.nodes[at(n)];
  const ValueId data = node.op == "aten::add" ? reader.only_data(node) : -1;
  const int producer = data < 0 ? -1 : reader.graph.values[at(data)].node;
  if (producer < 0 || !is_product(reader.graph.nodes[at(producer)])) return -1;
  return reader.reads_parameter(reader.graph.nodes[at(producer)]) ? producer : -1;
}

} // namespace

ValueId classifier_input(const Graph &graph) {
  const Reader reader(graph);
  int last = reader.last_with_parameters();
  if (last >= 0) {
    const int product = product_before_bias(reader, last);
    if (product >= 0) last = product;
  }
  const bool vectors = graph.values[at(graph.output)].shape.size() == 1;
  if (last < 0 || !vectors || !reader.alone(last)) return graph.output;
  const Node &node = graph.nodes[at(last)];
  const bool classifier =
      is_product(node) || (is_1x1_convolution(graph, node) && named_like_classifier(node.module));
  const ValueId input = classifier ? reader.only_data(node) : -1;
  return input >= 0 ? input : graph.output;
}

} // namespace tl::graph
