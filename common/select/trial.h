// One candidate trained on one state of the data: the result, and the weights it left.
#pragma once

#include "select/candidate.h"
#include "shard/safetensors.h"
#include "train/fit.h"
#include "json/document.h"

#include <functional>
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
  double seconds = 0;
  bool cached = false; // from an earlier run

  bool failed() const { return !failure.empty(); }
};

json::Value to_json(const Trial &trial);
/// Throws FormatError.
Trial trial_from_json(const json::Value &document, const std::string &origin);

/// Identifies what a candidate is trained on: the records with their labels and names (which decide their
/// order), and the classes.
Digest data_digest(const std::string &features);

/// Folder of one candidate: RUNS/trials/ID.
struct TrialFolder {
  std::string path;

  /// The result of an earlier run on the same data; nothing if there is none, or if it is damaged, or if
  /// its weights are missing.
  std::optional<Trial> load(const Candidate &candidate, const Digest &data) const;
  /// The weights first, so that a result never stands alone.
  void save(const Trial &trial, const std::vector<shard::NamedTensor> &weights) const;
  /// The candidate's model with the weights of its best epoch. Throws FormatError if they are damaged or
  /// come from other data, SystemError if they are gone.
  model::Model best_model(const Candidate &candidate, const Digest &data) const;
};

/// Trains the candidate on the features in a shard folder, exactly as it would be trained alone, and
/// saves the result. A loss that is not finite, and whatever else makes this candidate alone
/// impossible, becomes a failed trial; a damaged folder, a full disk or a signal is thrown.
Trial train_candidate(const Candidate &candidate, const std::string &features, const Digest &data,
                      const TrialFolder &folder,
                      const std::function<void(const train::EpochResult &)> &epoch);

} // namespace tl::select
