// What a killed run continues from: one file, replaced whole after each epoch.
#pragma once

#include "train/trainer.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::train {

/// Everything that decides the results of a run, so that a resumed one can prove to be the same.
struct Identity {
  Digest network; // output of the untrained network: weights, layers, preprocessing
  json::Value scheme;
  json::Value preprocess;
  std::vector<std::string> classes;
  std::optional<Digest> records; // see records_digest; known once they have arrived
  TrainOptions options;
};

/// What differs, for people: "the classes", "lr 0.1 -> 0.01". Records that one side does not know yet
/// do not differ.
std::vector<std::string> differences(const Identity &before, const Identity &now);

/// Hash of all records by content, label and id, in whatever order they arrived.
Digest records_digest(const std::deque<RecordInfo> &records);

struct Checkpoint {
  Identity identity;
  TrainerState state;
  /// Of each class, and records left out: {"training": [...], "validation": [...], "skipped",
  /// "skipped_before"}.
  json::Value records;
  json::Value best; // Evaluation::to_json() of the best epoch; null without validation
};

/// A sealed safetensors file of the format "tl-checkpoint".
void save_checkpoint(const std::string &path, const Checkpoint &checkpoint);
/// Nothing if there is no such file. Throws FormatError if it is damaged.
std::optional<Checkpoint> load_checkpoint(const std::string &path);

} // namespace tl::train
