// The frozen parts of several models as one graph in which equal values exist once, whatever file they
// come from: the multi-model graph of Nautilus (SIGMOD 2022), merged by Merkle hash.
#pragma once

#include "model/model.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tl::select {

class MultiModel {
public:
  /// `first` gives the input: the models that are added read the same one (equal hash).
  explicit MultiModel(const model::Model &first);

  /// Adds what the frozen `values` of `model` need and the graph lacks. Tensors are shared, not copied.
  void add(const model::Model &model, const std::vector<graph::ValueId> &values);

  /// Its graph has no output of its own: it is run up to values that find() gives.
  const model::Model &model() const { return model_; }
  graph::ValueId find(const Digest &hash) const { return ids_.at(hash); }
  /// Of all nodes together, for a record.
  double flops() const;

private:
  void add_node(const model::Model &from, const graph::Node &node);
  graph::Operand operand(const model::Model &from, const graph::Operand &operand);

  model::Model model_;
  std::map<Digest, graph::ValueId> ids_;         // by hash
  std::map<Digest, int> parameters_, constants_; // by content
  std::set<std::string> value_names_, parameter_names_;
};

} // namespace tl::select
