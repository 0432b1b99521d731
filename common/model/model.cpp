#include "model/model.h"

#include "cli/error.h"
#include "model/export.h"
#include "model/load.h"
#include "model/lower.h"
#include "model/tensors.h"

#include <torch/torch.h>

#include <cmath>
#include <map>

namespace tl::model {

namespace {

/// Gives `graph`, made from `model.graph` by dropping and adding, its tensors: parameters by name,
/// constants by content.
void take_tensors(const Model &model, Model &result) {
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < model.graph.parameters.size(); ++i) by_name[model.graph.parameters[i].name] = i;
  for (const graph::Parameter &parameter : result.graph.parameters)
    result.parameters.push_back(parameter.fresh ? at::Tensor()
                                                : model.parameters[by_name.at(parameter.name)]);
  std::map<Digest, std::size_t> by_content;
  for (std::size_t i = 0; i < model.graph.constants.size(); ++i)
    by_content[model.graph.constants[i].content] = i;
  for (const graph::TensorConstant &constant : result.graph.constants)
    result.constants.push_back(model.constants[by_content.at(constant.content)]);
}

Model with_graph(const Model &model, graph::Graph graph) {
  Model result;
  result.graph = std::move(graph);
  result.path = model.path;
  result.preprocessing = model.preprocessing;
  take_tensors(model, result);
  return result;
}

} // namespace

Model load_model(const std::string &path, const InputSpec &input, const Digest &preprocessing) {
  Model lowered = lower(load_torchscript(path), input, path);
  lowered.preprocessing = preprocessing;
  graph::Graph graph = lowered.graph;
  graph::prune(graph);
  restore_names(graph, path);
  Model model = with_graph(lowered, std::move(graph));
  graph::compute_hashes(model.graph, preprocessing);
  return model;
}

Model apply_scheme(const Model &model, const graph::Scheme &scheme, std::int64_t classes) {
  return with_graph(model, graph::apply_scheme(model.graph, scheme, classes));
}

void initialise(Model &model, std::uint64_t seed) {
  for (std::size_t i = 0; i < model.graph.parameters.size(); ++i) {
    const graph::Parameter &parameter = model.graph.parameters[i];
    if (!parameter.fresh || model.parameters[i].defined()) continue;
    if (parameter.zero) {
      model.parameters[i] = at::zeros(parameter.shape, scalar_type(parameter.dtype));
      continue;
    }
    // torch.nn.Linear draws weight and bias from the same interval; a bias has the fan-in of its weight.
    const graph::Parameter *weight = &parameter;
    if (parameter.shape.size() == 1)
      for (const graph::Parameter &other : model.graph.parameters)
        if (other.fresh && other.shape.size() > 1 &&
            other.name == parameter.name.substr(0, parameter.name.rfind('.')) + ".weight")
          weight = &other;
    const std::int64_t fan_in = element_count(weight->shape) / std::max<std::int64_t>(weight->shape[0], 1);
    const double bound = 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
    at::Generator generator = at::detail::createCPUGenerator(mix(seed, hash_text(parameter.name)));
    at::Tensor drawn = at::empty(parameter.shape, scalar_type(parameter.dtype));
    drawn.uniform_(-bound, bound, generator);
    model.parameters[i] = drawn;
  }
}

} // namespace tl::model
