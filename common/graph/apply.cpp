// apply_scheme: a pretrained graph becomes the graph that is trained.
#include "cli/error.h"
#include "graph/pool.h"
#include "graph/scheme.h"

#include <algorithm>
#include <regex>

namespace tl::graph {

namespace {

std::size_t at(int id) { return static_cast<std::size_t>(id); }

/// Appends nodes to a graph that has its hashes.
class Builder {
public:
  Builder(Graph &graph, std::string module) : graph_(graph), module_(std::move(module)) {}

  ValueId add(const std::string &op, std::vector<Operand> inputs, const std::string &name, DType dtype,
              Shape shape) {
    Value value;
    value.name = name;
    value.dtype = dtype;
    value.shape = std::move(shape);
    value.node = static_cast<int>(graph_.nodes.size());
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(std::move(value));
    graph_.nodes.push_back({op, module_, std::move(inputs), {id}});
    hash_node(graph_, static_cast<int>(graph_.nodes.size()) - 1);
    return id;
  }

  Operand fresh(const std::string &name, DType dtype, Shape shape) {
    Parameter parameter;
    parameter.name = name;
    parameter.dtype = dtype;
    parameter.shape = std::move(shape);
    parameter.fresh = true;
    graph_.parameters.push_back(std::move(parameter));
    return Operand::of_parameter(static_cast<int>(graph_.parameters.size()) - 1);
  }

private:
  Graph &graph_;
  std::string module_;
};

using Ints = std::vector<std::int64_t>;

ValueId add_mean(Builder &builder, ValueId from, const Value &value, Ints axes, std::int64_t width,
                 const std::string &name) {
  return builder.add("aten::mean",
                     {Operand::of_value(from), Operand::of(std::move(axes)), Operand::of(false),
                      Operand::of(std::monostate{})},
                     name, value.dtype, {width});
}

ValueId add_pool(Graph &graph, Builder &builder, ValueId from, Pool pool, const std::string &name) {
  if (pool == Pool::automatic) pool = choose_pool(graph, from);
  const Value value = graph.values[at(from)]; // a copy: adding nodes moves the values
  const std::size_t rank = value.shape.size();
  const bool fits = pool == Pool::none   ? rank == 1
                    : pool == Pool::mean ? rank >= 2 && rank <= 4
                                         : rank == 2 && value.shape[0] > 0;
  if (!fits)
    throw UsageError("pooling '" + std::string(name_of(pool)) + "' does not fit '" + value.name +
                     "', which is " + to_string(value.shape) +
                     " for a record; use --pool auto or name another value with --features");
  if (pool == Pool::none) return from;
  if (pool == Pool::class_token)
    return builder.add("aten::select",
                       {Operand::of_value(from), Operand::of(std::int64_t{1}), Operand::of(std::int64_t{0})},
                       name, value.dtype, {value.shape[1]});
  if (rank == 2) return add_mean(builder, from, value, {1}, value.shape[1], name);
  if (rank == 4) return add_mean(builder, from, value, {2, 3, 4}, value.shape[0], name);
  if (channels_last(graph, from)) return add_mean(builder, from, value, {1, 2}, value.shape[2], name);
  const ValueId map =
      builder.add("aten::adaptive_avg_pool2d", {Operand::of_value(from), Operand::of(Ints{1, 1})},
                  name + ".mean", value.dtype, {value.shape[0], 1, 1});
  return builder.add("aten::flatten",
                     {Operand::of_value(map), Operand::of(std::int64_t{1}), Operand::of(std::int64_t{-1})},
                     name, value.dtype, {value.shape[0]});
}

/// A module name that the graph does not use: "head", else "head2", ...
std::string free_name(const Graph &graph) {
  const auto used = [&](const std::string &prefix) {
    const auto below = [&](const std::string &name) {
      return name == prefix || name.rfind(prefix + ".", 0) == 0;
    };
    const auto takes = [&](const std::string &name, const std::vector<std::string> &others) {
      return below(name) || std::any_of(others.begin(), others.end(), below);
    };
    return std::any_of(graph.values.begin(), graph.values.end(),
                       [&](const Value &value) { return takes(value.name, value.aliases); }) ||
           std::any_of(graph.parameters.begin(), graph.parameters.end(),
                       [&](const Parameter &parameter) { return takes(parameter.name, parameter.tied); });
  };
  std::string name = "head";
  for (int i = 2; used(name); ++i) name = "head" + std::to_string(i);
  return name;
}

ValueId features_of(const Graph &graph, const Scheme &scheme) {
  if (scheme.features.empty()) return classifier_input(graph);
  try {
    return graph.find(scheme.features);
  } catch (const Error &error) {
    throw UsageError(std::string("--features: ") + error.what());
  }
}

void add_head(Graph &graph, const Scheme &scheme, std::int64_t classes) {
  const ValueId features = features_of(graph, scheme);
  const Value &value = graph.values[at(features)];
  const bool real = value.dtype == DType::f32 || value.dtype == DType::f64;
  if (value.kind != ValueKind::tensor || !value.batched || !real || !depends_on_input(graph)[at(features)])
    throw UsageError("a head cannot read '" + value.name +
                     "': it is not a floating-point tensor with one row per record");
  graph.output = features;
  prune(graph);
  const std::string name = free_name(graph);
  Builder builder(graph, name);
  ValueId x = add_pool(graph, builder, graph.output, scheme.pool, name + ".pool");
  Ints widths = scheme.head->hidden;
  widths.push_back(classes);
  const DType dtype = graph.values[at(x)].dtype;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (i > 0)
      x = builder.add("aten::relu", {Operand::of_value(x)}, name + "." + std::to_string(2 * i - 1), dtype,
                      {widths[i - 1]});
    const std::string layer = name + "." + std::to_string(2 * i);
    const std::int64_t width = graph.values[at(x)].shape[0];
    const Operand weight = builder.fresh(layer + ".weight", dtype, {widths[i], width});
    const Operand bias = builder.fresh(layer + ".bias", dtype, {widths[i]});
    x = builder.add("aten::linear", {Operand::of_value(x), weight, bias}, layer, dtype, {widths[i]});
  }
  graph.output = x;
}

void check_output(const Graph &graph, std::int64_t classes) {
  const Value &output = graph.values[at(graph.output)];
  if (output.kind == ValueKind::tensor && output.batched && output.shape == Shape{classes}) return;
  throw UsageError("the model gives " + to_string(output.shape) + " for a record, but there are " +
                   std::to_string(classes) + " classes; add a new classifier with --head linear");
}

std::regex compile(const std::string &train) {
  try {
    return std::regex(train, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error &) {
    throw UsageError("--train '" + train + "' is not a regular expression");
  }
}

/// Sets Parameter::trainable: what is new, and what `train` matches.
void mark_trainable(Graph &graph, const std::string &train) {
  for (Parameter &parameter : graph.parameters) parameter.trainable = parameter.fresh;
  if (train.empty()) return;
  const std::regex pattern = compile(train);
  const auto matches = [&](const std::string &name) { return std::regex_search(name, pattern); };
  bool any = false;
  std::vector<std::string> names;
  for (Parameter &parameter : graph.parameters) {
    const bool real = parameter.dtype <= DType::bf16; // floating-point types come first
    if (parameter.buffer || parameter.fresh || !real) continue;
    names.push_back(parameter.name);
    parameter.trainable =
        matches(parameter.name) || std::any_of(parameter.tied.begin(), parameter.tied.end(), matches);
    any = any || parameter.trainable;
  }
  if (any) return;
  const std::string range =
      names.empty() ? "" : "; their names run from '" + names.front() + "' to '" + names.back() + "'";
  throw UsageError("--train '" + train + "' matches none of the " + std::to_string(names.size()) +
                   " parameters that stay in the model" + range);
}

/// Moves frozen nodes before the others, order kept. A node that only computes numbers (a size)
/// stays where it is read, unless a frozen tensor needs it: a number cannot cross a cut.
void frozen_first(Graph &graph) {
  const std::vector<bool> is_frozen = frozen(graph);
  const auto node_frozen = [&](const Node &node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return is_frozen[at(id)]; });
  };
  std::size_t first_trained = 0;
  while (first_trained < graph.nodes.size() && node_frozen(graph.nodes[first_trained])) ++first_trained;
  std::vector<bool> early(graph.nodes.size(), false);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node &node = graph.nodes[n];
    const bool tensors = std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return graph.values[at(id)].kind == ValueKind::tensor;
    });
    if (n < first_trained || (tensors && node_frozen(node))) early[n] = true;
    if (!early[n]) continue;
    for (const Operand &operand : node.inputs)
      if (operand.kind == Operand::Kind::value && graph.values[at(operand.index)].node >= 0)
        early[at(graph.values[at(operand.index)].node)] = true;
  }
  std::vector<Node> nodes;
  for (const bool wanted : {true, false})
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      if (early[n] == wanted) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId out : graph.nodes[n].outputs) graph.values[at(out)].node = static_cast<int>(n);
}

} // namespace

Graph apply_scheme(const Graph &graph, const Scheme &scheme, std::int64_t classes) {
  if (classes < 1) throw UsageError("the number of classes must be at least 1");
  if (!scheme.head && scheme.train.empty())
    throw UsageError("nothing would be trained; give --head linear, or --train REGEX, or both");
  if (!scheme.head && (!scheme.features.empty() || scheme.pool != Pool::automatic))
    throw UsageError("--features and --pool say what a new head reads; give --head too");
  Graph result = graph;
  if (scheme.head)
    add_head(result, scheme, classes);
  else {
    prune(result);
    check_output(result, classes);
  }
  mark_trainable(result, scheme.train);
  if (frozen(result)[at(result.output)])
    throw UsageError("nothing would be trained: the output does not depend on what --train matches");
  frozen_first(result);
  return result;
}

} // namespace tl::graph
