// One model in training. Knows no files and no sources: it is fed with rows, so one pass over the data
// can feed several trainers.
#pragma once

#include "cli/error.h"
#include "model/program.h"
#include "shard/safetensors.h"
#include "train/features.h"
#include "train/metrics.h"
#include "train/optimizer.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::train {

/// A loss or a parameter is not a number any more. The message names the step and the records.
class NotFinite : public Error {
public:
  using Error::Error;
};

/// What an epoch of training did.
struct EpochLoss {
  double loss = 0; // mean over the records, by their class weights
  std::int64_t records = 0;
  std::int64_t steps = 0;
  double lr = 0; // of the last step
};

/// A trainer between two epochs, by name: all that an exact continuation needs.
struct TrainerState {
  std::vector<shard::NamedTensor> tensors; // "now.NAME", "best.NAME", "momentum.NAME", ...
  json::Value progress;
};

class Trainer {
public:
  /// `model`: under its scheme, with all parameters drawn. `inputs`: the values that the rows hold.
  /// Throws UsageError for a batch of 1 where a batch-norm trains, Error if an operator has no gradient.
  Trainer(const model::Model &model, const std::vector<graph::ValueId> &inputs, std::int64_t classes,
          const TrainOptions &options);

  const TrainOptions &options() const { return options_; }
  std::int64_t classes() const { return classes_; }

  /// True if set_counts() must be called before the first epoch: class weights need every label.
  bool needs_counts() const { return options_.class_weights == ClassWeights::balanced; }
  /// Training records of each class.
  void set_counts(const std::vector<std::int64_t> &counts);

  /// Training records of this epoch, in order, in pieces of any size. Batches are cut from the
  /// sequence: their borders never depend on the pieces. A batch-norm that trains never sees a batch
  /// of one record: a single last record joins the batch before. Throws NotFinite.
  void feed(const Rows &rows);
  /// Trains on what is left and ends the epoch. Throws NotFinite; Error if no record came.
  EpochLoss end_epoch();

  /// {rows, classes}, in evaluation mode, without gradients.
  at::Tensor logits(const std::vector<at::Tensor> &values) const;
  void evaluate(const Rows &rows, Evaluation &into) const;

  /// Is the epoch that just ended the best so far? Keeps its parameters if so, and counts patience.
  /// Without validation the last epoch is the best. Throws NotFinite for a validation loss that is not
  /// a number.
  bool judge(const std::optional<Evaluation> &validation);

  std::int64_t epoch() const { return epoch_; } // epochs done
  std::int64_t steps() const { return optimizer_.steps(); }
  std::int64_t best_epoch() const { return best_epoch_; } // counted from 1; 0: none yet
  /// All epochs done, or out of patience.
  bool finished() const;
  bool out_of_patience() const;

  /// The model with the parameters of the best epoch.
  model::Model best() const;
  /// Logits of the best epoch's parameters.
  at::Tensor best_logits(const std::vector<at::Tensor> &values) const;

  TrainerState state() const;
  /// Continues from a state of a trainer of the same model and options. Throws FormatError naming
  /// `origin` if a tensor is missing or does not fit.
  void restore(const TrainerState &state, const std::string &origin);

private:
  void step(std::int64_t records);
  /// Gradients for these rows; returns the loss.
  double backward(const std::vector<at::Tensor> &values, const at::Tensor &labels);
  [[noreturn]] void not_finite(const at::Tensor &logits, std::int64_t records) const;
  void check_parameters() const;
  std::vector<at::Tensor> current() const;

  model::Model model_;
  std::vector<graph::ValueId> inputs_;
  model::TrainedProgram program_;
  TrainOptions options_;
  std::int64_t classes_;
  Optimizer optimizer_;
  std::int64_t largest_;           // elements of the largest result of a trained layer, for a record
  std::vector<std::string> names_; // of the trainable parameters, then of the statistics
  at::Tensor class_weights_;       // undefined: all 1
  Rows pending_;
  EpochLoss running_;
  double weight_sum_ = 0;
  std::int64_t epoch_ = 0, best_epoch_ = 0;
  double best_score_ = 0;
  std::vector<at::Tensor> best_; // copies of current() at the best epoch
};

} // namespace tl::train
