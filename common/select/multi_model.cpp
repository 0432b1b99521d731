#include "select/multi_model.h"

#include "graph/flops.h"
#include "model/build.h"

namespace tl::select {

using graph::Operand;

namespace {
/// Two models may use one name for different things.
void make_unique(std::string &name, std::set<std::string> &taken) {
  const std::string wanted = name;
  for (int i = 2; !taken.insert(name).second; ++i) name = wanted + "~" + std::to_string(i);
}
} // namespace

MultiModel::MultiModel(const model::Model &first) {
  model_.path = first.path;
  model_.preprocessing = first.preprocessing;
  model_.graph.values.push_back(first.graph.input());
  ids_[first.graph.input().hash] = 0;
  value_names_.insert(first.graph.input().name);
}

void MultiModel::add(const model::Model &model, const std::vector<graph::ValueId> &values) {
  for (const int node : model::needed_nodes(model.graph, {0}, values))
    add_node(model, model.graph.nodes[static_cast<std::size_t>(node)]);
}

void MultiModel::add_node(const model::Model &from, const graph::Node &node) {
  const auto value_of = [&](graph::ValueId id) -> const graph::Value & {
    return from.graph.values[static_cast<std::size_t>(id)];
  };
  if (ids_.count(value_of(node.outputs.at(0)).hash) > 0) return;
  graph::Node copy{node.op, node.module, {}, {}};
  for (const Operand &item : node.inputs) copy.inputs.push_back(operand(from, item));
  for (const graph::ValueId id : node.outputs) {
    graph::Value value = value_of(id);
    value.node = static_cast<int>(model_.graph.nodes.size());
    value.aliases.clear();
    make_unique(value.name, value_names_);
    const auto copied = static_cast<graph::ValueId>(model_.graph.values.size());
    ids_[value.hash] = copied;
    copy.outputs.push_back(copied);
    model_.graph.values.push_back(std::move(value));
  }
  model_.graph.nodes.push_back(std::move(copy));
}

Operand MultiModel::operand(const model::Model &from, const Operand &operand) {
  const auto index = static_cast<std::size_t>(operand.index);
  if (operand.kind == Operand::Kind::value) return Operand::of_value(find(from.graph.values[index].hash));
  if (operand.kind == Operand::Kind::parameter) {
    const graph::Parameter &parameter = from.graph.parameters[index];
    const auto [found, added] =
        parameters_.emplace(parameter.content, static_cast<int>(model_.graph.parameters.size()));
    if (added) {
      model_.graph.parameters.push_back(parameter);
      make_unique(model_.graph.parameters.back().name, parameter_names_);
      model_.parameters.push_back(from.parameters[index]);
    }
    return Operand::of_parameter(found->second);
  }
  const auto *tensor = std::get_if<graph::TensorIndex>(&operand.constant);
  if (!tensor) return operand;
  const auto constant = static_cast<std::size_t>(tensor->index);
  const auto [found, added] = constants_.emplace(from.graph.constants[constant].content,
                                                 static_cast<int>(model_.graph.constants.size()));
  if (added) {
    model_.graph.constants.push_back(from.graph.constants[constant]);
    model_.constants.push_back(from.constants[constant]);
  }
  return Operand::of(graph::TensorIndex{found->second});
}

double MultiModel::flops() const {
  double sum = 0;
  for (const graph::Node &node : model_.graph.nodes) sum += graph::flops(model_.graph, node);
  return sum;
}

} // namespace tl::select
