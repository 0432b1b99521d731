// TorchScript -> graph of values.
//
// The module's forward() is executed once by a small interpreter of TorchScript's own intermediate
// representation, in lock-step for two batch sizes, while everything that depends on the records or
// on a parameter is written down as a straight-line graph:
//   - whatever is equal at both batch sizes and depends on no data (sizes, flags, attributes) is a
//     constant; so calls, branches and loops over such things dissolve, traced and scripted files of
//     one network lower to the same graph, and batch sizes stay symbolic;
//   - lists and tuples are followed element by element, in-place operators become the ones that
//     return their result, evaluation-mode dropout disappears;
//   - values get their names from the module whose code made them.
// The two runs share their first records. A value whose first dimension is the batch must agree on
// them, or the model mixes records and cannot be split.
#pragma once

#include "model/model.h"

#include <torch/csrc/jit/api/module.h>

namespace tl::model {

/// Throws FormatError, naming the module and operator, for what cannot be split safely: records of a
/// batch that influence each other, an output whose first dimension is not the batch, dropout or
/// batch-norm traced in training mode, random operators, control flow that depends on the data,
/// operators that touch files, in-place writes to views, or several inputs or outputs.
/// Hashes are not computed here.
Model lower(const torch::jit::Module &module, const InputSpec &input, const std::string &path);

} // namespace tl::model
