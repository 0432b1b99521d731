#include "graph/pool.h"

#include "runtime/at.h"

#include <algorithm>
#include <string_view>

namespace tl::graph {

namespace {

enum class Layout { unknown, first, last };

bool one_of(const std::string &op, std::initializer_list<std::string_view> names) {
  return std::count(names.begin(), names.end(), std::string_view(op)) > 0;
}

bool elementwise(const std::string &op) {
  return is_activation(op) || one_of(op, {"aten::add", "aten::sub", "aten::mul", "aten::div", "aten::neg",
                                          "aten::clone", "aten::contiguous", "aten::to", "aten::detach",
                                          "aten::prelu", "aten::alias", "prim::ListConstruct", "aten::cat"});
}

bool channels_first_op(const std::string &op) {
  return op.rfind("aten::conv", 0) == 0 || op.find("_pool2d") != std::string::npos ||
         one_of(op, {"aten::_convolution", "aten::batch_norm", "aten::group_norm", "aten::instance_norm",
                     "aten::upsample_bilinear2d", "aten::upsample_nearest2d", "aten::pixel_shuffle"});
}

const std::vector<std::int64_t> *ints(const Node &node, std::size_t input) {
  return input < node.inputs.size() ? std::get_if<std::vector<std::int64_t>>(&node.inputs[input].constant)
                                    : nullptr;
}

/// The layout that a node gives its output (`output` true) or expects of its input.
Layout layout_of(const Node &node, bool output) {
  if (channels_first_op(node.op)) return Layout::first;
  if (node.op == "aten::linear") return Layout::last;
  if (node.op == "aten::layer_norm") {
    const auto *normalized = ints(node, 1);
    return normalized && normalized->size() == 1 ? Layout::last : Layout::unknown;
  }
  if (node.op == "aten::permute") {
    const auto *order = ints(node, 1);
    if (order && *order == std::vector<std::int64_t>{0, 3, 1, 2})
      return output ? Layout::first : Layout::last;
    if (order && *order == std::vector<std::int64_t>{0, 2, 3, 1})
      return output ? Layout::last : Layout::first;
  }
  return Layout::unknown;
}

/// Walks from `start` to producers (or readers) through element-wise operators.
Layout walk(const Graph &graph, const std::vector<std::vector<int>> &readers, ValueId start, bool back) {
  std::vector<bool> seen(graph.values.size(), false);
  std::vector<ValueId> todo = {start};
  seen[at(start)] = true;
  const auto visit = [&](ValueId id) {
    if (!seen[at(id)]) todo.push_back(id);
    seen[at(id)] = true;
  };
  while (!todo.empty()) {
    const ValueId id = todo.back();
    todo.pop_back();
    std::vector<int> nodes;
    if (!back)
      nodes = readers[at(id)];
    else if (graph.values[at(id)].node >= 0)
      nodes = {graph.values[at(id)].node};
    for (const int n : nodes) {
      const Node &node = graph.nodes[at(n)];
      const Layout layout = layout_of(node, back);
      if (layout != Layout::unknown) return layout;
      if (!elementwise(node.op)) continue;
      if (!back) std::for_each(node.outputs.begin(), node.outputs.end(), visit);
      for (const Operand &operand : node.inputs)
        if (back && operand.kind == Operand::Kind::value) visit(operand.index);
    }
  }
  return Layout::unknown;
}

/// True if `id` is a parameter repeated for each record: the class token of a vision transformer.
bool expanded_parameter(const Graph &graph, const std::vector<bool> &depends, ValueId id) {
  const int producer = graph.values[at(id)].node;
  if (producer < 0) return false;
  const Node &node = graph.nodes[at(producer)];
  if (!one_of(node.op, {"aten::expand", "aten::expand_as", "aten::repeat"}) || node.inputs.empty())
    return false;
  const Operand &source = node.inputs[0];
  return source.kind == Operand::Kind::parameter ||
         (source.kind == Operand::Kind::value && !depends[at(source.index)]);
}

/// True if `node` puts an expanded parameter in front of a sequence of `length`.
bool adds_class_token(const Graph &graph, const std::vector<bool> &depends, const Node &node,
                      std::int64_t length) {
  if (node.op != "aten::cat" || node.inputs.size() != 2 || node.outputs.empty()) return false;
  const Shape &joined = graph.values[at(node.outputs[0])].shape;
  const auto *axis = std::get_if<std::int64_t>(&node.inputs[1].constant);
  if (joined.size() != 2 || joined[0] != length || !axis || (*axis != 1 && *axis != -2)) return false;
  if (node.inputs[0].kind != Operand::Kind::value) return false;
  const int producer = graph.values[at(node.inputs[0].index)].node;
  if (producer < 0 || graph.nodes[at(producer)].inputs.empty()) return false;
  const Operand &first = graph.nodes[at(producer)].inputs[0];
  return first.kind == Operand::Kind::value && expanded_parameter(graph, depends, first.index);
}

bool has_class_token(const Graph &graph, ValueId value) {
  const std::vector<bool> depends = depends_on_input(graph);
  std::vector<bool> upstream(graph.values.size(), false);
  upstream[at(value)] = true;
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node &node = graph.nodes[n];
    const bool needed =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return upstream[at(id)]; });
    if (!needed) continue;
    if (adds_class_token(graph, depends, node, graph.values[at(value)].shape[0])) return true;
    for (const Operand &operand : node.inputs)
      if (operand.kind == Operand::Kind::value) upstream[at(operand.index)] = true;
  }
  return false;
}

} // namespace

bool is_activation(const std::string &op) {
  return one_of(op, {"aten::relu", "aten::relu6", "aten::hardtanh", "aten::hardswish", "aten::hardsigmoid",
                     "aten::silu", "aten::gelu", "aten::sigmoid", "aten::tanh", "aten::elu",
                     "aten::leaky_relu", "aten::mish", "aten::softplus", "aten::clamp"});
}

bool channels_last(const Graph &graph, ValueId value) {
  const std::vector<std::vector<int>> readers = graph.readers();
  Layout layout = walk(graph, readers, value, true);
  if (layout == Layout::unknown) layout = walk(graph, readers, value, false);
  return layout == Layout::last;
}

Pool choose_pool(const Graph &graph, ValueId value) {
  const std::size_t rank = graph.values[at(value)].shape.size();
  if (rank == 1) return Pool::none;
  return rank == 2 && has_class_token(graph, value) ? Pool::class_token : Pool::mean;
}

} // namespace tl::graph
