#include "graph/graph.h"

#include "cli/error.h"

#include <algorithm>
#include <set>

namespace tl::graph {

namespace {

// Far above any real network (Swin-B: about 3000 nodes), low enough to bound every pass.
constexpr std::size_t kMaxItems = 1U << 20;

// Of one tensor. Sums over a whole graph then stay far from overflow.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 36;

[[noreturn]] void broken(const std::string &what) { throw FormatError(what); }

std::string place(const Graph &graph, std::size_t node) {
  return "node " + std::to_string(node) + " (" + graph.nodes[node].op + ")";
}

void check_operand(const Graph &graph, std::size_t node, const Operand &operand,
                   const std::vector<bool> &defined) {
  if (operand.kind == Operand::Kind::value) {
    if (operand.index < 0 || static_cast<std::size_t>(operand.index) >= graph.values.size())
      broken(place(graph, node) + " reads value " + std::to_string(operand.index) + ", which does not exist");
    if (!defined[static_cast<std::size_t>(operand.index)])
      broken(place(graph, node) + " reads '" + graph.values[static_cast<std::size_t>(operand.index)].name +
             "' before it is computed");
  } else if (operand.kind == Operand::Kind::parameter) {
    if (operand.index < 0 || static_cast<std::size_t>(operand.index) >= graph.parameters.size())
      broken(place(graph, node) + " reads parameter " + std::to_string(operand.index) +
             ", which does not exist");
  } else if (const auto *tensor = std::get_if<TensorIndex>(&operand.constant)) {
    if (tensor->index < 0 || static_cast<std::size_t>(tensor->index) >= graph.constants.size())
      broken(place(graph, node) + " reads constant " + std::to_string(tensor->index) +
             ", which does not exist");
  }
}

void check_nodes(const Graph &graph) {
  std::vector<bool> defined(graph.values.size(), false);
  defined[0] = true;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const Operand &operand : graph.nodes[n].inputs) check_operand(graph, n, operand, defined);
    for (const ValueId out : graph.nodes[n].outputs) {
      if (out <= 0 || static_cast<std::size_t>(out) >= graph.values.size())
        broken(place(graph, n) + " writes value " + std::to_string(out) + ", which does not exist");
      const auto id = static_cast<std::size_t>(out);
      if (defined[id]) broken("value '" + graph.values[id].name + "' is computed twice");
      if (graph.values[id].node != static_cast<int>(n))
        broken("value '" + graph.values[id].name + "' names another node than the one that computes it");
      defined[id] = true;
    }
  }
  for (std::size_t id = 0; id < defined.size(); ++id)
    if (!defined[id]) broken("value '" + graph.values[id].name + "' is computed by no node");
}

void check_names(const Graph &graph) {
  std::set<std::string> names;
  const auto unique = [&](const std::string &name) {
    if (name.empty()) broken("a value or parameter has no name");
    if (!names.insert(name).second) broken("the name '" + name + "' is there twice");
  };
  for (const Value &value : graph.values) {
    unique(value.name);
    for (const std::string &alias : value.aliases) unique(alias);
  }
  names.clear();
  for (const Parameter &parameter : graph.parameters) {
    unique(parameter.name);
    for (const std::string &tied : parameter.tied) unique(tied);
  }
}

} // namespace

ValueId Graph::find(const std::string &name) const {
  std::vector<std::string> known;
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Value &value = values[id];
    if (value.name == name || std::count(value.aliases.begin(), value.aliases.end(), name))
      return static_cast<ValueId>(id);
    known.push_back(value.name);
    known.insert(known.end(), value.aliases.begin(), value.aliases.end());
  }
  const std::string hint = json::suggestion(name, known);
  throw Error("the model has no value '" + name + "'" + (hint.empty() ? "" : "; " + hint));
}

std::vector<std::vector<int>> Graph::readers() const {
  std::vector<std::vector<int>> result(values.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const Operand &operand : nodes[n].inputs) {
      if (operand.kind != Operand::Kind::value) continue;
      auto &list = result[static_cast<std::size_t>(operand.index)];
      if (list.empty() || list.back() != static_cast<int>(n)) list.push_back(static_cast<int>(n));
    }
  }
  return result;
}

std::vector<bool> depends_on_input(const Graph &graph) {
  std::vector<bool> depends(graph.values.size(), false);
  depends[0] = true;
  for (const Node &node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Operand &operand) {
      return operand.kind == Operand::Kind::value && depends[static_cast<std::size_t>(operand.index)];
    });
    for (const ValueId out : node.outputs) depends[static_cast<std::size_t>(out)] = any;
  }
  return depends;
}

void prune(Graph &graph) {
  // Outputs are positional, so a node that is needed keeps all of its outputs.
  std::vector<bool> node_lives(graph.nodes.size(), false);
  const auto need = [&](ValueId id) {
    const int producer = graph.values[static_cast<std::size_t>(id)].node;
    if (producer >= 0) node_lives[static_cast<std::size_t>(producer)] = true;
  };
  need(graph.output);
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (node_lives[n])
      for (const Operand &operand : graph.nodes[n].inputs)
        if (operand.kind == Operand::Kind::value) need(operand.index);

  Graph kept;
  std::vector<int> value_ids(graph.values.size(), -1);
  std::vector<int> parameter_ids(graph.parameters.size(), -1);
  std::vector<int> constant_ids(graph.constants.size(), -1);
  const auto keep = [](auto &from, auto &to, std::vector<int> &ids, int id) {
    int &fresh = ids[static_cast<std::size_t>(id)];
    if (fresh < 0) {
      fresh = static_cast<int>(to.size());
      to.push_back(std::move(from[static_cast<std::size_t>(id)]));
    }
    return fresh;
  };
  keep(graph.values, kept.values, value_ids, 0);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!node_lives[n]) continue;
    Node node = std::move(graph.nodes[n]);
    for (Operand &operand : node.inputs) {
      if (operand.kind == Operand::Kind::value)
        operand.index = value_ids[static_cast<std::size_t>(operand.index)];
      else if (operand.kind == Operand::Kind::parameter)
        operand.index = keep(graph.parameters, kept.parameters, parameter_ids, operand.index);
      else if (auto *tensor = std::get_if<TensorIndex>(&operand.constant))
        tensor->index = keep(graph.constants, kept.constants, constant_ids, tensor->index);
    }
    for (ValueId &out : node.outputs) {
      out = keep(graph.values, kept.values, value_ids, out);
      kept.values[static_cast<std::size_t>(out)].node = static_cast<int>(kept.nodes.size());
    }
    kept.nodes.push_back(std::move(node));
  }
  kept.output = value_ids[static_cast<std::size_t>(graph.output)];
  graph = std::move(kept);
}

void check(const Graph &graph) {
  if (graph.values.empty()) broken("it has no values");
  if (std::max({graph.values.size(), graph.nodes.size(), graph.parameters.size()}) > kMaxItems)
    broken("it has more than " + std::to_string(kMaxItems) + " values, nodes or parameters");
  if (graph.values[0].node != -1) broken("value 0 must be the model's input");
  if (graph.values[0].kind != ValueKind::tensor) broken("the model's input must be a tensor");
  if (graph.output < 0 || static_cast<std::size_t>(graph.output) >= graph.values.size())
    broken("the output is value " + std::to_string(graph.output) + ", which does not exist");
  const auto check_size = [](const std::string &name, const Shape &shape) {
    if (element_count(shape) > kMaxElements)
      broken("'" + name + "' is impossibly large: " + to_string(shape));
  };
  for (const Value &value : graph.values) check_size(value.name, value.shape);
  for (const Parameter &parameter : graph.parameters) check_size(parameter.name, parameter.shape);
  check_nodes(graph);
  check_names(graph);
}

} // namespace tl::graph
