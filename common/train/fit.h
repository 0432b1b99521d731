// The training loop: epochs over features, for one trainer or for several at once.
#pragma once

#include "train/trainer.h"

#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace tl::train {

/// What the receiving side did while the records arrived.
struct ArrivalWork {
  double seconds = 0; // in frozen layers and steps
  /// Records behind those that were through the frozen layers first, and the seconds from then until the last
  /// step: what the whole pipeline achieves, whatever queues and sockets hold.
  std::int64_t later_records = 0;
  double later_seconds = 0;
};

struct EpochResult {
  std::int64_t epoch = 0; // counted from 1
  EpochLoss train;
  std::optional<Evaluation> validation;
  bool best = false;
  double seconds = 0;                 // of the whole epoch, all trainers together
  double waited = 0;                  // of them, waiting for records
  double frozen_seconds = 0;          // of them, in the frozen layers
  double train_seconds = 0;           // of them, in this trainer's steps
  std::int64_t records = 0;           // that went by: training and validation
  std::optional<ArrivalWork> arrival; // of the epoch in which the records arrived
};

/// Called after each epoch of each trainer.
using EpochDone = std::function<void(std::size_t trainer, const EpochResult &)>;

/// Trains until every trainer is finished(). Epoch 1 runs while the records arrive, in their order,
/// unless a trainer needs_counts(): then all arrive first. Each pass feeds all trainers, which must
/// agree in seed, validation share and epochs done, and may differ in everything else. Losses equal those
/// of training each alone. Throws Error if there is no record to train on or only one class.
/// `progress` is told of records that went by.
void fit(Features &features, const std::vector<Trainer *> &trainers, const EpochDone &done,
         const std::function<void(std::int64_t records)> &progress = {});

/// A trainer's place in a pass that several share.
struct Seat {
  Trainer *trainer = nullptr;
  std::vector<std::size_t> columns; // of the rows' values, in the order of its inputs; empty: all
  std::int64_t until = std::numeric_limits<std::int64_t>::max(); // stops after this epoch, to go on later
};

struct FitEvents {
  EpochDone done;
  /// What one trainer alone threw, and whether the others shall go on without it; if not, or if this is
  /// empty, fit() throws it. Errors of the features end the work for all.
  std::function<bool(std::size_t seat, std::exception_ptr error)> failed;
  std::function<void(std::int64_t records)> progress;
};

/// The same, in which each trainer reads columns of its own and may fail or stop alone.
void fit(Features &features, std::vector<Seat> seats, const FitEvents &events);

/// Positions that are trained on and validated, in arrival order.
struct Partition {
  std::vector<std::int64_t> training, validation;
  std::vector<std::int64_t> training_counts, validation_counts; // of each class
};
Partition partition(const Features &features, std::int64_t classes, const TrainOptions &options);

} // namespace tl::train
