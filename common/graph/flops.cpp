#include "graph/flops.h"

#include <algorithm>

namespace tl::graph {

namespace {

const Shape *shape_of(const Graph &graph, const Node &node, std::size_t input) {
  if (input >= node.inputs.size()) return nullptr;
  const Operand &operand = node.inputs[input];
  const auto index = static_cast<std::size_t>(operand.index);
  if (operand.kind == Operand::Kind::parameter) return &graph.parameters[index].shape;
  if (operand.kind == Operand::Kind::value && graph.values[index].kind == ValueKind::tensor)
    return &graph.values[index].shape;
  return nullptr;
}

double elements(const Shape &shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

double elements_of(const Graph &graph, const Node &node, std::size_t input) {
  const Shape *shape = shape_of(graph, node, input);
  return shape ? elements(*shape) : 0;
}

double last_size(const Graph &graph, const Node &node, std::size_t input) {
  const Shape *shape = shape_of(graph, node, input);
  return shape && !shape->empty() ? static_cast<double>(shape->back()) : 0;
}

double output_elements(const Graph &graph, const Node &node) {
  double count = 0;
  for (const ValueId id : node.outputs) {
    const Value &value = graph.values[static_cast<std::size_t>(id)];
    if (value.kind == ValueKind::tensor) count += elements(value.shape);
  }
  return count;
}

double convolution(const Graph &graph, const Node &node) {
  const Shape *weight = shape_of(graph, node, 1);
  if (!weight || weight->empty()) return 0;
  const bool *flag = node.op == "aten::_convolution" && node.inputs.size() > 6
                         ? std::get_if<bool>(&node.inputs[6].constant)
                         : nullptr;
  const bool transposed = (flag && *flag) || node.op.rfind("aten::conv_transpose", 0) == 0;
  // A normal convolution reads its kernel once per output element, a transposed one per input element.
  const double places = transposed ? elements_of(graph, node, 0) : output_elements(graph, node);
  const double kernel = elements(*weight) / std::max<double>(1, static_cast<double>(weight->front()));
  return 2 * places * kernel;
}

/// Attention of queries [.., L, D] over keys [.., S, D]: two matrix products.
double attention(const Graph &graph, const Node &node) {
  const Shape *key = shape_of(graph, node, 1);
  const double keys = key && key->size() >= 2 ? static_cast<double>((*key)[key->size() - 2]) : 0;
  return 4 * elements_of(graph, node, 0) * keys;
}

/// Fused self-attention over [T, D]: projections of q, k, v and of the result, and the attention.
double fused_attention(const Graph &graph, const Node &node, std::size_t qkv_weight) {
  const Shape *x = shape_of(graph, node, 0);
  if (!x || x->size() < 2) return 0;
  const auto tokens = static_cast<double>((*x)[x->size() - 2]);
  const double weights = elements_of(graph, node, qkv_weight) + elements_of(graph, node, qkv_weight + 2);
  return 2 * tokens * weights + 4 * tokens * elements(*x);
}

/// aten::_transformer_encoder_layer_fwd(src, embed_dim, heads, qkv_w, qkv_b, proj_w, proj_b, gelu,
/// norm_first, eps, norm1_w, norm1_b, norm2_w, norm2_b, ffn1_w, ffn1_b, ffn2_w, ffn2_b, ...)
double fused_layer(const Graph &graph, const Node &node) {
  const Shape *x = shape_of(graph, node, 0);
  if (!x || x->size() < 2) return 0;
  const auto tokens = static_cast<double>((*x)[x->size() - 2]);
  return fused_attention(graph, node, 3) +
         2 * tokens * (elements_of(graph, node, 14) + elements_of(graph, node, 16));
}

} // namespace

double flops(const Graph &graph, const Node &node) {
  const std::string &op = node.op;
  if (op == "aten::_convolution" || op.rfind("aten::conv", 0) == 0) return convolution(graph, node);
  if (op == "aten::linear") return 2 * output_elements(graph, node) * last_size(graph, node, 1);
  if (op == "aten::matmul" || op == "aten::bmm" || op == "aten::mm" || op == "aten::mv" || op == "aten::dot")
    return 2 * output_elements(graph, node) * last_size(graph, node, 0);
  if (op == "aten::addmm" || op == "aten::baddbmm" || op == "aten::addbmm")
    return 2 * output_elements(graph, node) * last_size(graph, node, 1);
  if (op == "aten::scaled_dot_product_attention" || op == "aten::_scaled_dot_product_attention")
    return attention(graph, node);
  // (query, key, value, embed_dim, heads, qkv_w, qkv_b, proj_w, proj_b, ...)
  if (op == "aten::_native_multi_head_attention") return fused_attention(graph, node, 5);
  if (op == "aten::_transformer_encoder_layer_fwd") return fused_layer(graph, node);
  return output_elements(graph, node);
}

double work(const Graph &graph, const Node &node) {
  const auto bytes_of = [](const Value &value) {
    return value.kind == ValueKind::tensor ? static_cast<double>(value.bytes()) : 0;
  };
  double work = flops(graph, node);
  for (const Operand &operand : node.inputs) {
    const auto i = static_cast<std::size_t>(operand.index);
    if (operand.kind == Operand::Kind::value) work += bytes_of(graph.values[i]);
    if (operand.kind == Operand::Kind::parameter) work += static_cast<double>(graph.parameters[i].bytes());
  }
  for (const ValueId out : node.outputs) work += bytes_of(graph.values[static_cast<std::size_t>(out)]);
  return work;
}

} // namespace tl::graph
