// apply_scheme: a pretrained graph becomes the graph that is trained.
#include "cli/error.h"
#include "graph/adapter.h"
#include "graph/builder.h"
#include "graph/pool.h"
#include "graph/scheme.h"
#include "runtime/at.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <string_view>

namespace tl::graph {

namespace {

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

/// The values whose names `text` joins by '+'.
std::vector<ValueId> values_of(const Graph &graph, const std::string &text) {
  std::vector<ValueId> values;
  std::istringstream names(text + "+"); // so that an empty last name is seen, too
  for (std::string name; std::getline(names, name, '+');) {
    ValueId id = 0;
    try {
      id = graph.find(name);
    } catch (const Error &error) {
      throw UsageError(std::string("--features: ") + error.what());
    }
    if (std::count(values.begin(), values.end(), id))
      throw UsageError("--features: '" + text + "' names '" + graph.values[at(id)].name + "' twice");
    values.push_back(id);
  }
  return values;
}

/// What the head reads.
struct Features {
  std::vector<ValueId> values;
  bool sum = false; // of the pooled values; else one after the other

  ValueId last() const { return *std::max_element(values.begin(), values.end()); }
};

constexpr std::string_view kSum = "sum:";

Features features_of(const Graph &graph, const std::string &text) {
  if (text.empty()) return {{classifier_input(graph)}, false};
  const bool sum = text.rfind(kSum, 0) == 0 && text.find('+') != std::string::npos;
  Features features{values_of(graph, sum ? text.substr(kSum.size()) : text), sum};
  const std::vector<bool> depends = depends_on_input(graph);
  for (const ValueId id : features.values) {
    const Value &value = graph.values[at(id)];
    const bool real = value.dtype == DType::f32 || value.dtype == DType::f64;
    if (value.kind != ValueKind::tensor || !value.batched || !real || !depends[at(id)])
      throw UsageError("a head cannot read '" + value.name +
                       "': it is not a floating-point tensor with one row per record");
  }
  return features;
}

/// Drops what none of the features needs, and gives them their new numbers.
void keep_only(Graph &graph, Features &features) {
  // A node that reads them all, until the rest is gone.
  graph.output = Builder(graph, "").add_list(features.values, "features");
  prune(graph);
  for (std::size_t i = 0; i < features.values.size(); ++i)
    features.values[i] = graph.nodes.back().inputs[i].index;
  graph.nodes.pop_back();
  graph.values.pop_back();
  graph.output = features.last();
}

/// The pooled features as one vector.
ValueId join(const Graph &graph, Builder &builder, const std::vector<ValueId> &vectors,
             const Features &features, const std::string &name) {
  const Value first = graph.values[at(vectors[0])]; // a copy: adding nodes moves the values
  const DType dtype = first.dtype;
  std::int64_t width = 0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    const Value &value = graph.values[at(vectors[i])];
    if (value.dtype != dtype || (features.sum && value.shape != first.shape))
      throw UsageError("--features: '" + graph.values[at(features.values[i])].name + "' is not of the same " +
                       (value.dtype != dtype ? "type" : "width") + " as '" +
                       graph.values[at(features.values[0])].name + "'");
    width += value.shape[0];
  }
  if (!features.sum)
    return builder.add(
        "aten::cat",
        {Operand::of_value(builder.add_list(vectors, name + ".list")), Operand::of(std::int64_t{1})}, name,
        dtype, {width});
  ValueId total = vectors[0];
  for (std::size_t i = 1; i < vectors.size(); ++i)
    total = builder.add(
        "aten::add", {Operand::of_value(total), Operand::of_value(vectors[i]), Operand::of(std::int64_t{1})},
        i + 1 == vectors.size() ? name : name + ".sum" + std::to_string(i), dtype,
        graph.values[at(total)].shape);
  return total;
}

ValueId add_features(Graph &graph, Builder &builder, const Features &features, Pool pool,
                     const std::string &name) {
  if (features.values.size() == 1) return add_pool(graph, builder, features.values[0], pool, name);
  std::vector<ValueId> vectors;
  for (std::size_t i = 0; i < features.values.size(); ++i)
    vectors.push_back(add_pool(graph, builder, features.values[i], pool, name + "." + std::to_string(i)));
  return join(graph, builder, vectors, features, name);
}

void add_head(Graph &graph, const Scheme &scheme, const Features &features, std::int64_t classes) {
  const std::string name = free_name(graph, "head");
  Builder builder(graph, name);
  ValueId x = add_features(graph, builder, features, scheme.pool, name + ".pool");
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

bool is_real(const Parameter &parameter) { return parameter.dtype <= DType::bf16; } // they come first

std::regex compile(const std::string &train) {
  try {
    return std::regex(train, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error &) {
    throw UsageError("--train '" + train + "' is not a regular expression");
  }
}

/// Sets Parameter::trainable where `pattern` matches.
void train_matching(Graph &graph, const std::string &train) {
  const std::regex pattern = compile(train);
  const auto matches = [&](const std::string &name) { return std::regex_search(name, pattern); };
  bool any = false;
  std::vector<std::string> names;
  for (Parameter &parameter : graph.parameters) {
    if (parameter.buffer || parameter.fresh || !is_real(parameter)) continue;
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

/// Sets Parameter::trainable of what the pretrained model has.
void mark_trainable(Graph &graph, const Scheme &scheme, const std::vector<Block> &blocks) {
  for (Parameter &parameter : graph.parameters) parameter.trainable = false;
  if (!scheme.train.empty()) train_matching(graph, scheme.train);
  if (scheme.unfreeze == 0) return;
  const std::size_t first =
      first_of_last(blocks, scheme.unfreeze, "--unfreeze " + std::to_string(scheme.unfreeze));
  for (std::size_t b = first; b < blocks.size(); ++b)
    for (const int p : blocks[b].parameters)
      if (is_real(graph.parameters[at(p)])) graph.parameters[at(p)].trainable = true;
}

/// Those that the scheme speaks of; none if it does not.
std::vector<Block> blocks_of(const Graph &graph, const Scheme &scheme) {
  if (scheme.unfreeze == 0 && !scheme.adapters) return {};
  return find_blocks(graph, static_cast<int>(graph.nodes.size()), graph.output);
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

/// What makes no sense, whatever the graph.
void check(const Scheme &scheme, std::int64_t classes) {
  if (classes < 1) throw UsageError("the number of classes must be at least 1");
  if (scheme.head) return;
  if (scheme.train.empty() && scheme.unfreeze == 0)
    throw UsageError("nothing would be trained; give --head linear, --train REGEX or --unfreeze BLOCKS");
  if (!scheme.features.empty() || scheme.pool != Pool::automatic)
    throw UsageError("--features and --pool say what a new head reads; give --head too");
  if (scheme.adapters) throw UsageError("--adapters go below a new head; give --head too");
}

} // namespace

std::string free_name(const Graph &graph, const std::string &wanted) {
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
  std::string name = wanted;
  for (int i = 2; used(name); ++i) name = wanted + std::to_string(i);
  return name;
}

Graph apply_scheme(const Graph &graph, const Scheme &scheme, std::int64_t classes) {
  check(scheme, classes);
  Graph result = graph;
  std::vector<Block> blocks;
  if (scheme.head) {
    Features features = features_of(result, scheme.features);
    keep_only(result, features);
    blocks = blocks_of(result, scheme);
    add_head(result, scheme, features, classes);
  } else {
    prune(result);
    check_output(result, classes);
    blocks = blocks_of(result, scheme);
  }
  mark_trainable(result, scheme, blocks);
  if (scheme.adapters) add_adapters(result, *scheme.adapters, blocks);
  for (Parameter &parameter : result.parameters) parameter.trainable = parameter.trainable || parameter.fresh;
  if (frozen(result)[at(result.output)])
    throw UsageError("nothing would be trained: the output does not depend on what --train matches");
  frozen_first(result);
  return result;
}

} // namespace tl::graph
