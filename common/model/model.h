// A pretrained network: its graph of values and the tensors that the graph names.
#pragma once

#include "graph/graph.h"
#include "graph/scheme.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace tl::model {

/// What one record looks like to the model; the batch dimension is not part of `shape`.
struct InputSpec {
  DType dtype = DType::f32; // f32: pictures, CxHxW, or feature vectors; i64: token ids, T
  Shape shape;
};

/// `graph.parameters[i]` has its contents in `parameters[i]`, `graph.constants[i]` in `constants[i]`.
/// The contents of fresh parameters are undefined tensors until initialise() draws them.
struct Model {
  graph::Graph graph;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> constants;
  std::string path;
  Digest preprocessing;

  InputSpec input() const { return {graph.input().dtype, graph.input().shape}; }
};

/// Loads a TorchScript file and lowers its forward() to a graph (lower.h). The file is refused with
/// one line if it is not TorchScript (a state_dict, truncated, an archive of another kind), was
/// written by a newer LibTorch, uses an unknown operator, or cannot be split safely: see lower().
/// `preprocessing` enters the hash of the input, and so of every value.
Model load_model(const std::string &path, const InputSpec &input, const Digest &preprocessing);

/// The model under a scheme: apply_scheme() on the graph, and the tensors to go with it. Tensors are
/// shared with `model`; nothing is copied.
Model apply_scheme(const Model &model, const graph::Scheme &scheme, std::int64_t classes);

/// Draws the contents of fresh parameters as torch.nn.Linear and Conv2d do (uniform in +-1/sqrt(fan in); 0
/// where a parameter says so) from `seed` and the parameter's name, so that a head starts the same whatever
/// else is trained with it.
void initialise(Model &model, std::uint64_t seed);

} // namespace tl::model
