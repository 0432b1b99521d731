// How something is trained: what tl-train's options and a candidate of an experiment say.
#pragma once

#include "train/options/schedule.h"
#include "json/document.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tl::train {

enum class OptimizerKind { sgd, adam, adamw };

/// Which validation figure decides what the best epoch is.
enum class Monitor { loss, accuracy, balanced_accuracy };

enum class ClassWeights {
  none,
  balanced, // a record of class c weighs records / (classes * records of c)
};

std::string_view name_of(OptimizerKind kind);
std::string_view name_of(Monitor monitor);
std::string_view name_of(ClassWeights weights);

struct TrainOptions {
  std::int64_t epochs = 10;
  std::int64_t batch = 32;
  OptimizerKind optimizer = OptimizerKind::adam;
  double lr = 1e-3;        // sgd: 0.01 unless given
  double momentum = 0;     // sgd only: 0.9 unless given
  double weight_decay = 0; // adamw: 0.01 unless given
  Schedule schedule;
  std::int64_t warmup = 0;                         // steps over which the rate rises from 0 to the schedule's
  double clip_norm = 0;                            // largest 2-norm of all gradients together; 0: not clipped
  double label_smoothing = 0;                      // of the training loss only
  ClassWeights class_weights = ClassWeights::none; // in the training loss only
  double validation = 0.2;                         // share of the records kept for validation; 0: none
  Monitor monitor = Monitor::loss;
  std::int64_t patience = 0; // stop after so many epochs without a better one; 0: never
  std::uint64_t seed = 0;    // of the head's start, the order and the validation split

  /// Throws UsageError naming the option that makes no sense.
  void check() const;
};

/// Every field, always. The keys are the options' names with '_' for '-'.
json::Value to_json(const TrainOptions &options);
/// Fields left out get the defaults of the optimizer. Throws FormatError "origin: ..." for an
/// unknown key, a wrong type or a value out of range.
TrainOptions options_from_json(const json::Value &object, const std::string &origin);

/// What differs and would change results: "lr 0.1 -> 0.01". More patience and, where the schedule
/// does not depend on their number, other epochs do not.
std::vector<std::string> changes(const TrainOptions &before, const TrainOptions &now);

} // namespace tl::train
