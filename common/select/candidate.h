// Candidates with their models: what exactly is trained, on which frozen values.
#pragma once

#include "data/source.h"
#include "graph/cut.h"
#include "model/model.h"
#include "select/experiment.h"

#include <memory>
#include <string>
#include <vector>

namespace tl::select {

/// A model under a scheme: shared by all candidates that differ only in how they are trained.
struct Prepared {
  model::Model model; // contents of new parameters not drawn yet
  data::Preprocess preprocess;
  /// The frozen values that training reads: the deepest cut, in the order of their hashes, so that two
  /// models with equal values there name them in the same order.
  std::vector<graph::ValueId> inputs;

  const graph::Value &input(std::size_t i) const {
    return model.graph.values[static_cast<std::size_t>(inputs[i])];
  }
  /// True if the records themselves are what is read: nothing is frozen below the trained part.
  bool reads_records() const { return inputs.size() == 1 && inputs[0] == 0; }
};

struct Candidate {
  std::string id; // 16 hexadecimal digits: settings and contents of the model, not names, paths or data
  Spec spec;
  std::shared_ptr<const Prepared> prepared;

  const std::string &name() const { return spec.name; }
};

struct Candidates {
  std::vector<Candidate> all;     // without those that are the same as an earlier one
  std::vector<std::string> notes; // "A is the same as B", one line each
};

/// Loads the models and applies the schemes, for records like those of `dataset`. No record is read.
/// Throws what load_model() throws, and FormatError "origin: /candidates/0: ..." for a scheme that does
/// not fit its model or cannot be trained.
Candidates resolve(const Experiment &experiment, const data::Dataset &dataset);

} // namespace tl::select
