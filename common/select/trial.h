// One candidate trained on one state of the data: the result, and the weights it left.
#pragma once

#include "data/loader.h"
#include "select/candidate.h"
#include "shard/safetensors.h"
#include "train/trainer.h"
#include "json/document.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::select {

/// What result.json (schemas/trial.schema.json) says.
struct Trial {
  std::string id, name; // of the candidate
  Digest data;          // data_digest() of what it was trained on
  std::string failure;  // why there is no result; "" if there is one
  bool final = true;    // a failure that would happen again: not tried again on the same data
  std::int64_t training_records = 0;
  std::int64_t epochs = 0;     // done
  std::int64_t best_epoch = 0; // counted from 1
  double score = 0;            // of the experiment's metric at the best epoch; larger is better
  json::Value validation;      // train::Evaluation::to_json() at the best epoch
  json::Value history;         // of each epoch: loss, and the figures of the validation
  std::optional<Digest>
      warm_start; // data whose training gave the first parameters; none: drawn from the seed
  double seconds = 0;
  bool cached = false; // from an earlier run

  bool failed() const { return !failure.empty(); }
  /// No further epoch would be trained if so many were asked for: it has them, it failed, or it is out of
  /// patience.
  bool reached(std::int64_t wanted, std::int64_t patience) const {
    return failed() || epochs >= wanted || (patience > 0 && epochs - best_epoch >= patience);
  }
};

json::Value to_json(const Trial &trial);
/// Throws FormatError.
Trial trial_from_json(const json::Value &document, const std::string &origin);

/// Identifies what a candidate is trained on: the contents of the records with their labels, and the classes.
/// Not their names: training reads the records in an order of their contents. `folders`: of features; records
/// that one of them lacks do not count.
Digest data_digest(const std::vector<std::string> &folders);
/// The same of a data set, whose records are read for it where `hashes` (may be null) does not know them.
Digest data_digest(const data::Dataset &dataset, std::size_t threads, data::HashCache *hashes);

/// Folder of one candidate: RUNS/trials/ID.
struct TrialFolder {
  std::string path;

  /// The result of an earlier run on the same data, of whatever number of epochs; nothing if there is none,
  /// or if it is damaged, or if its weights are missing. One that did not start from the seed counts only
  /// `with_warm` ones.
  std::optional<Trial> load(const Candidate &candidate, const Digest &data, bool with_warm = false) const;
  /// The weights first, so that a result never stands alone.
  void save(const Trial &trial, const std::vector<shard::NamedTensor> &weights) const;
  /// The candidate's model with the weights of its best epoch. Throws FormatError if they are damaged or
  /// come from other data, SystemError if they are gone.
  model::Model best_model(const Candidate &candidate, const Digest &data) const;

  /// Puts the weights that the last training left, on whatever data, into `model`. Returns the data; nothing,
  /// and the model as it was, if there are none that fit.
  std::optional<Digest> warm_start(const Candidate &candidate, model::Model &model) const;

  /// A training that stopped early, to go on later; save() comes after it. Nothing if there is none that fits
  /// `trial`, or if it is damaged.
  void save_state(const Trial &trial, const train::TrainerState &state) const;
  std::optional<train::TrainerState> load_state(const Trial &trial) const;
  void remove_state() const;
};

} // namespace tl::select
