// Adds nodes to a graph that has its hashes; a part of apply_scheme.
#pragma once

#include "graph/graph.h"

#include <string>
#include <utility>
#include <vector>

namespace tl::graph {

class Builder {
public:
  /// `module`: of the new nodes.
  Builder(Graph &graph, std::string module) : graph_(graph), module_(std::move(module)) {}

  ValueId add(const std::string &op, std::vector<Operand> inputs, const std::string &name, DType dtype,
              Shape shape) {
    Value value;
    value.name = name;
    value.dtype = dtype;
    value.shape = std::move(shape);
    return add(op, std::move(inputs), std::move(value));
  }

  ValueId add_list(const std::vector<ValueId> &items, const std::string &name) {
    std::vector<Operand> operands;
    for (const ValueId item : items) operands.push_back(Operand::of_value(item));
    Value value;
    value.name = name;
    value.kind = ValueKind::tensor_list;
    value.batched = false;
    return add("prim::ListConstruct", std::move(operands), std::move(value));
  }

  /// A parameter without contents. `zero`: it starts at 0.
  Operand fresh(const std::string &name, DType dtype, Shape shape, bool zero = false) {
    Parameter parameter;
    parameter.name = name;
    parameter.dtype = dtype;
    parameter.shape = std::move(shape);
    parameter.fresh = true;
    parameter.zero = zero;
    graph_.parameters.push_back(std::move(parameter));
    return Operand::of_parameter(static_cast<int>(graph_.parameters.size()) - 1);
  }

private:
  ValueId add(const std::string &op, std::vector<Operand> inputs, Value value) {
    value.node = static_cast<int>(graph_.nodes.size());
    const auto id = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(std::move(value));
    graph_.nodes.push_back({op, module_, std::move(inputs), {id}});
    hash_node(graph_, static_cast<int>(graph_.nodes.size()) - 1);
    return id;
  }

  Graph &graph_;
  std::string module_;
};

/// A module name that the graph does not use: `wanted`, else with a 2, a 3, ... behind it.
std::string free_name(const Graph &graph, const std::string &wanted);

} // namespace tl::graph
