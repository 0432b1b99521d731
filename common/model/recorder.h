// Writes down the straight-line graph while the lowering interpreter runs a model.
#pragma once

#include "model/model.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tl::model {

/// What the interpreter knows of one non-composite value: its contents in both runs, and how the
/// graph refers to it. Shared by everything that aliases it, so that an in-place operator is seen by
/// all of them.
struct Leaf {
  c10::IValue run[2];
  std::optional<graph::Operand> operand; // none: a constant, equal in both runs
  bool data = false;                     // its contents depend on the records
  bool weights = false;                  // its contents depend on a parameter
  std::shared_ptr<Leaf> number;          // of a tensor made from a number: that number
};

/// A leaf, or a list or tuple followed element by element. Lists are shared: append() is seen by all.
struct Known {
  std::shared_ptr<Leaf> leaf;
  std::shared_ptr<std::vector<Known>> items;
  bool tuple = false;
};

/// How the two runs differ: the batch sizes, sharing their first records.
constexpr std::int64_t kProbeBatch[2] = {2, 3};

class Recorder {
public:
  Recorder(const InputSpec &input, std::string path);

  /// Registers a named tensor of the module tree; the same storage twice is one tied parameter.
  std::shared_ptr<Leaf> parameter(const std::string &name, const at::Tensor &tensor, bool buffer);

  /// Adds a node. `outputs` are the results of both runs; returns one leaf for each.
  std::vector<std::shared_ptr<Leaf>> add(const std::string &op, const std::string &module,
                                         std::vector<graph::Operand> inputs,
                                         const std::vector<std::pair<c10::IValue, c10::IValue>> &outputs,
                                         bool data, bool weights);

  /// A literal for a constant of the model. Throws FormatError for kinds that no operator takes.
  graph::Operand constant(const c10::IValue &value, const std::string &where);

  /// `leaf` was returned by the module at `path`: it gets that name. `first_node` is the number of
  /// nodes before the module ran; a module that added none (identity) gives an alias only.
  void name(const Leaf &leaf, const std::string &path, bool container, std::size_t first_node);

  std::size_t nodes() const { return model_.graph.nodes.size(); }
  Model finish(const Leaf &output);

private:
  graph::ValueKind describe(graph::Value &value, const c10::IValue &first, const c10::IValue &second,
                            bool data, const std::string &where);
  std::string unique(const std::string &base);

  struct Names {
    std::string own;                  // from the operator
    std::vector<std::string> modules; // whose result it is, innermost first
    std::vector<std::string> aliases;
  };

  Model model_;
  std::vector<Names> names_;
  std::set<std::string> used_;
  std::map<std::string, int> counts_;
  std::unordered_map<const void *, int> parameter_index_;
  std::map<Digest, int> constant_index_;
};

} // namespace tl::model
