// Graphs made by hand and at random, without LibTorch.
#pragma once

#include "graph/graph.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tl::test {

using graph::Constant;
using graph::Graph;
using graph::Operand;
using graph::ValueId;
using graph::ValueKind;
using Ints = std::vector<std::int64_t>;

/// Builds a graph node by node; every method returns the new value.
class GraphBuilder {
public:
  explicit GraphBuilder(Shape input = {3, 8, 8}, DType dtype = DType::f32) {
    graph::Value value;
    value.name = "input";
    value.dtype = dtype;
    value.shape = std::move(input);
    graph_.values.push_back(value);
  }

  ValueId add(const std::string &op, std::vector<Operand> inputs, const std::string &name, Shape shape,
              const std::string &module = "") {
    graph::Value value;
    value.name = name;
    value.shape = std::move(shape);
    value.node = static_cast<int>(graph_.nodes.size());
    graph_.values.push_back(value);
    const auto id = static_cast<ValueId>(graph_.values.size()) - 1;
    graph_.nodes.push_back({op, module.empty() ? name : module, std::move(inputs), {id}});
    graph_.output = id;
    return id;
  }

  Operand parameter(const std::string &name, Shape shape, bool buffer = false) {
    graph::Parameter parameter;
    parameter.name = name;
    parameter.shape = std::move(shape);
    parameter.buffer = buffer;
    parameter.content = hash_text("content of " + name);
    graph_.parameters.push_back(parameter);
    return Operand::of_parameter(static_cast<int>(graph_.parameters.size()) - 1);
  }

  ValueId conv(ValueId x, const std::string &name, std::int64_t out, std::int64_t kernel = 3,
               std::int64_t stride = 1) {
    const Shape in = at(x).shape;
    const Operand weight = parameter(name + ".weight", {out, in[0], kernel, kernel});
    const Operand bias = parameter(name + ".bias", {out});
    const std::int64_t pad = kernel / 2;
    return add("aten::conv2d",
               {Operand::of_value(x), weight, bias, Operand::of(Ints{stride, stride}),
                Operand::of(Ints{pad, pad}), Operand::of(Ints{1, 1}), Operand::of(std::int64_t{1})},
               name, {out, (in[1] + stride - 1) / stride, (in[2] + stride - 1) / stride});
  }

  ValueId batch_norm(ValueId x, const std::string &name) {
    const std::int64_t channels = at(x).shape[0];
    const Operand weight = parameter(name + ".weight", {channels}),
                  bias = parameter(name + ".bias", {channels});
    const Operand mean = parameter(name + ".running_mean", {channels}, true);
    const Operand variance = parameter(name + ".running_var", {channels}, true);
    return add("aten::batch_norm",
               {Operand::of_value(x), weight, bias, mean, variance, Operand::of(false), Operand::of(0.1),
                Operand::of(1e-5), Operand::of(true)},
               name, at(x).shape);
  }

  ValueId linear(ValueId x, const std::string &name, std::int64_t out) {
    Shape shape = at(x).shape;
    const Operand weight = parameter(name + ".weight", {out, shape.back()}),
                  bias = parameter(name + ".bias", {out});
    shape.back() = out;
    return add("aten::linear", {Operand::of_value(x), weight, bias}, name, shape);
  }

  ValueId layer_norm(ValueId x, const std::string &name) {
    const std::int64_t width = at(x).shape.back();
    const Operand weight = parameter(name + ".weight", {width}), bias = parameter(name + ".bias", {width});
    return add(
        "aten::layer_norm",
        {Operand::of_value(x), Operand::of(Ints{width}), weight, bias, Operand::of(1e-5), Operand::of(true)},
        name, at(x).shape);
  }

  ValueId relu(ValueId x, const std::string &name) {
    return add("aten::relu", {Operand::of_value(x)}, name, at(x).shape);
  }
  ValueId sum(ValueId a, ValueId b, const std::string &name) {
    return add("aten::add", {Operand::of_value(a), Operand::of_value(b), Operand::of(std::int64_t{1})}, name,
               at(a).shape);
  }
  ValueId cat(const std::vector<ValueId> &parts, const std::string &name, Shape shape) {
    std::vector<Operand> operands;
    for (const ValueId part : parts) operands.push_back(Operand::of_value(part));
    const ValueId list = add("prim::ListConstruct", operands, name + ".list", {});
    at(list).kind = ValueKind::tensor_list;
    at(list).batched = false;
    return add("aten::cat", {Operand::of_value(list), Operand::of(std::int64_t{1})}, name, std::move(shape));
  }
  ValueId pool_and_flatten(ValueId x, const std::string &name) {
    const std::int64_t channels = at(x).shape[0];
    const ValueId map = add("aten::adaptive_avg_pool2d", {Operand::of_value(x), Operand::of(Ints{1, 1})},
                            name, {channels, 1, 1});
    return add("aten::flatten",
               {Operand::of_value(map), Operand::of(std::int64_t{1}), Operand::of(std::int64_t{-1})},
               "flatten", {channels});
  }
  /// A parameter repeated for each record of `like`, as vision transformers do with their class token.
  ValueId class_token(ValueId like, const std::string &name, std::int64_t width) {
    const Operand token = parameter(name, {1, 1, width});
    const ValueId size =
        add("aten::size", {Operand::of_value(like), Operand::of(std::int64_t{0})}, name + ".size", {});
    at(size).kind = ValueKind::integer;
    at(size).batched = false;
    const ValueId sizes =
        add("prim::ListConstruct",
            {Operand::of_value(size), Operand::of(std::int64_t{-1}), Operand::of(std::int64_t{-1})},
            name + ".sizes", {});
    at(sizes).kind = ValueKind::integer_list;
    at(sizes).batched = false;
    return add("aten::expand", {token, Operand::of_value(sizes), Operand::of(false)}, name + ".expand",
               {1, width});
  }

  graph::Value &at(ValueId id) { return graph_.values[static_cast<std::size_t>(id)]; }
  Graph &raw() { return graph_; }

  /// With hashes.
  Graph done() {
    graph::check(graph_);
    graph::compute_hashes(graph_, hash_text("preprocessing"));
    return graph_;
  }

private:
  Graph graph_;
};

/// conv1 relu1 conv2 relu2 avgpool flatten fc
inline Graph chain(std::int64_t classes = 10) {
  GraphBuilder b;
  ValueId x = b.relu(b.conv(0, "conv1", 4), "relu1");
  x = b.relu(b.conv(x, "conv2", 8, 3, 2), "relu2");
  b.linear(b.pool_and_flatten(x, "avgpool"), "fc", classes);
  return b.done();
}

/// A stem and two residual blocks with batch-norm, the second with a projection, as in ResNet.
inline Graph residual() {
  GraphBuilder b;
  const ValueId stem = b.relu(b.batch_norm(b.conv(0, "conv1", 4), "bn1"), "relu");
  ValueId x = b.relu(b.batch_norm(b.conv(stem, "layer1.conv1", 4), "layer1.bn1"), "layer1.relu");
  const ValueId block1 = b.relu(b.sum(b.conv(x, "layer1.conv2", 4), stem, "layer1.add"), "layer1");
  x = b.relu(b.conv(block1, "layer2.conv1", 8, 3, 2), "layer2.relu");
  x = b.conv(x, "layer2.conv2", 8);
  const ValueId projection = b.conv(block1, "layer2.downsample", 8, 1, 2);
  const ValueId block2 = b.relu(b.sum(x, projection, "layer2.add"), "layer2");
  b.linear(b.pool_and_flatten(block2, "avgpool"), "fc", 10);
  return b.done();
}

/// A dense block: each layer reads all before it.
inline Graph dense() {
  GraphBuilder b;
  const ValueId x0 = b.conv(0, "conv0", 4);
  const ValueId x1 = b.conv(x0, "layer1", 2);
  const ValueId c1 = b.cat({x0, x1}, "cat1", {6, 8, 8});
  const ValueId x2 = b.conv(c1, "layer2", 2);
  const ValueId c2 = b.cat({x0, x1, x2}, "cat2", {8, 8, 8});
  b.linear(b.pool_and_flatten(b.relu(c2, "relu"), "avgpool"), "classifier", 10);
  return b.done();
}

/// Patches, a class token in front if asked for, one block, a norm; then the token or the mean, a head.
inline Graph transformer(bool token) {
  GraphBuilder b({16, 6});
  ValueId x = b.linear(0, "embed", 4);
  const std::int64_t length = token ? 17 : 16;
  if (token) x = b.cat({b.class_token(x, "cls", 4), x}, "cat", {17, 4});
  const ValueId normed = b.layer_norm(x, "block.norm");
  const ValueId mlp = b.linear(b.relu(b.linear(normed, "block.mlp.0", 8), "block.mlp.1"), "block.mlp.2", 4);
  const ValueId last = b.layer_norm(b.sum(x, mlp, "block"), "norm");
  b.at(last).shape = {length, 4};
  const ValueId pooled =
      token ? b.add("aten::select",
                    {Operand::of_value(last), Operand::of(std::int64_t{1}), Operand::of(std::int64_t{0})},
                    "token", {4})
            : b.add("aten::mean",
                    {Operand::of_value(last), Operand::of(Ints{1}), Operand::of(false),
                     Operand::of(std::monostate{})},
                    "mean", {4});
  b.linear(pooled, "head", 10);
  return b.done();
}

/// A pruned DAG of up to `nodes` operators on vectors, with parameters, constants of every type, two
/// outputs here and there, and values that depend on no input.
inline Graph random_dag(std::mt19937 &random, int nodes, bool plain = false) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  GraphBuilder b({4});
  for (int n = 0; n < nodes; ++n) {
    const std::string name = "v" + std::to_string(n);
    std::vector<Operand> inputs;
    const bool independent = !plain && pick(6) == 0;
    for (int i = 1 + pick(2); i > 0 && !independent; --i)
      inputs.push_back(Operand::of_value(pick(static_cast<int>(b.raw().values.size()))));
    if (independent || pick(3) == 0) inputs.push_back(b.parameter(name + ".weight", {4}));
    const std::vector<Constant> constants = {
        std::monostate{},    true,       std::int64_t{3},          2.5,
        std::string("mode"), Ints{1, 2}, std::vector<double>{0.5}, std::vector<bool>{true, false}};
    if (!plain && pick(2)) inputs.push_back(Operand::of(constants[static_cast<std::size_t>(pick(8))]));
    b.add("aten::op" + std::to_string(pick(4)), inputs, name, {4});
    if (!plain && pick(5) == 0) { // a second output, which may stay unread
      graph::Value second = b.raw().values.back();
      second.name += ".1";
      b.raw().values.push_back(second);
      b.raw().nodes.back().outputs.push_back(static_cast<ValueId>(b.raw().values.size()) - 1);
    }
  }
  Graph graph = b.done();
  graph::prune(graph);
  return graph;
}

/// The same function with other names, another order of nodes, values and parameters, and dead nodes.
inline Graph relabelled(const Graph &from, std::mt19937 &random) {
  Graph to;
  std::vector<int> value_ids(from.values.size(), -1);
  std::vector<int> order(from.parameters.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int> parameter_ids(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    parameter_ids[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    to.parameters.push_back(from.parameters[static_cast<std::size_t>(order[i])]);
    to.parameters.back().name = "renamed" + std::to_string(i);
  }
  to.constants = from.constants;
  const auto add_value = [&](std::size_t id) {
    value_ids[id] = static_cast<int>(to.values.size());
    to.values.push_back(from.values[id]);
    to.values.back().name = "value" + std::to_string(to.values.size());
    to.values.back().hash = {};
  };
  add_value(0);
  std::vector<bool> done(from.nodes.size(), false);
  for (std::size_t left = from.nodes.size(); left > 0;) {
    const std::size_t n = random() % from.nodes.size();
    const auto ready = [&](const Operand &operand) {
      return operand.kind != Operand::Kind::value || value_ids[static_cast<std::size_t>(operand.index)] >= 0;
    };
    if (done[n] || !std::all_of(from.nodes[n].inputs.begin(), from.nodes[n].inputs.end(), ready)) continue;
    graph::Node node = from.nodes[n];
    node.module = "elsewhere";
    for (Operand &operand : node.inputs) {
      if (operand.kind == Operand::Kind::value)
        operand.index = value_ids[static_cast<std::size_t>(operand.index)];
      if (operand.kind == Operand::Kind::parameter)
        operand.index = parameter_ids[static_cast<std::size_t>(operand.index)];
    }
    for (ValueId &out : node.outputs) {
      add_value(static_cast<std::size_t>(out));
      out = value_ids[static_cast<std::size_t>(out)];
      to.values[static_cast<std::size_t>(out)].node = static_cast<int>(to.nodes.size());
    }
    to.nodes.push_back(node);
    done[n] = true;
    --left;
  }
  to.output = value_ids[static_cast<std::size_t>(from.output)];
  graph::Value dead;
  dead.name = "dead";
  dead.shape = {4};
  dead.node = static_cast<int>(to.nodes.size());
  to.nodes.push_back(
      {"aten::dead", "", {Operand::of_value(to.output)}, {static_cast<ValueId>(to.values.size())}});
  to.values.push_back(dead);
  return to;
}

inline Digest output_hash(const Graph &graph) {
  return graph.values[static_cast<std::size_t>(graph.output)].hash;
}

} // namespace tl::test
