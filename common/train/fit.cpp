#include "train/fit.h"

#include "cli/error.h"
#include "runtime/clock.h"

#include <algorithm>
#include <numeric>

namespace tl::train {

namespace {

using Progress = std::function<void(std::int64_t records)>;

bool is_validation(const RecordInfo &record, const TrainOptions &options) {
  return train::is_validation(record.hash, options.validation, options.seed);
}

/// The rows of the arrival that are trained on.
Rows training_rows(const Rows &rows, const TrainOptions &options) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < rows.size(); ++i)
    if (!is_validation(*rows.records[static_cast<std::size_t>(i)], options)) places.push_back(i);
  return static_cast<std::int64_t>(places.size()) == rows.size() ? rows : select(rows, places);
}

void check_data(const Partition &parts, std::size_t records, const TrainOptions &options) {
  if (records == 0) throw Error("there are no records: nothing to train on");
  std::int64_t present = 0;
  for (std::size_t c = 0; c < parts.training_counts.size(); ++c)
    present += parts.training_counts[c] + parts.validation_counts[c] > 0;
  if (present < 2)
    throw Error("all records are of one class: there is nothing to tell apart; add records of another");
  const std::string all = std::to_string(records) + " records";
  if (parts.training.empty())
    throw Error("of " + all + ", none is left for training; lower the validation share");
  if (options.validation > 0 && parts.validation.empty())
    throw Error("of " + all +
                ", none falls into the validation share; raise it, or give 0 for no validation");
}

/// One epoch's run over trainers that are not finished.
class Epoch {
public:
  Epoch(Features &features, const std::vector<Trainer *> &trainers, const EpochDone &done,
        const Progress &progress)
      : features_(features), done_(done), progress_(progress), options_(trainers.front()->options()) {
    for (std::size_t i = 0; i < trainers.size(); ++i)
      if (!trainers[i]->finished()) active_.push_back({i, trainers[i], {}, {}, 0});
  }

  bool empty() const { return active_.empty(); }

  void run() {
    const Stopwatch watch;
    const FeatureCounters before = features_.counters();
    train();
    for (Active &item : active_) {
      const Stopwatch step;
      item.loss = item.trainer->end_epoch();
      item.seconds += step.seconds();
    }
    validate();
    const FeatureCounters after = features_.counters();
    for (Active &item : active_) {
      EpochResult result;
      result.epoch = item.trainer->epoch();
      result.train = item.loss;
      result.validation = item.validation;
      result.best = item.trainer->judge(item.validation);
      result.seconds = watch.seconds();
      result.waited = after.waited - before.waited;
      result.frozen_seconds = after.frozen_seconds - before.frozen_seconds;
      result.train_seconds = item.seconds;
      if (arrived_) result.arrival_work = arrival_work_;
      result.records = static_cast<std::int64_t>(parts_.training.size() + parts_.validation.size());
      done_(item.index, result);
    }
  }

private:
  struct Active {
    std::size_t index;
    Trainer *trainer;
    EpochLoss loss;
    std::optional<Evaluation> validation;
    double seconds;
  };

  void train() {
    const std::int64_t epoch = active_.front().trainer->epoch();
    const bool counts = std::any_of(active_.begin(), active_.end(),
                                    [](const Active &item) { return item.trainer->needs_counts(); });
    if (!features_.complete() && (epoch > 0 || counts)) features_.drain();
    const bool arriving = !features_.complete();
    const double frozen = features_.counters().frozen_seconds;
    if (!arriving) divide();
    if (counts)
      for (const Active &item : active_) item.trainer->set_counts(parts_.training_counts);
    const auto pass = arriving ? features_.arrive() : features_.pass(order(epoch));
    while (const std::optional<Rows> rows = pass->next()) {
      if (progress_) progress_(rows->size());
      const Rows chosen = arriving ? training_rows(*rows, options_) : *rows;
      if (chosen.size() == 0) continue;
      for (Active &item : active_) {
        const Stopwatch step;
        item.trainer->feed(chosen);
        item.seconds += step.seconds();
      }
    }
    if (arriving) divide();
    arrived_ = arriving;
    arrival_work_ = features_.counters().frozen_seconds - frozen;
    for (const Active &item : active_) arrival_work_ += item.seconds;
  }

  std::vector<std::int64_t> order(std::int64_t epoch) const {
    if (epoch == 0) return parts_.training;
    return epoch_order(features_.records(), parts_.training, options_.seed, epoch);
  }

  void divide() {
    parts_ = partition(features_, active_.front().trainer->classes(), options_);
    check_data(parts_, features_.records().size(), options_);
  }

  void validate() {
    if (parts_.validation.empty()) return;
    for (Active &item : active_) item.validation.emplace(item.trainer->classes());
    const auto pass = features_.pass(parts_.validation);
    while (const std::optional<Rows> rows = pass->next()) {
      if (progress_ && !arrived_) progress_(rows->size());
      for (Active &item : active_) {
        const Stopwatch step;
        item.trainer->evaluate(*rows, *item.validation);
        item.seconds += step.seconds();
      }
    }
  }

  Features &features_;
  const EpochDone &done_;
  const Progress &progress_;
  const TrainOptions &options_;
  std::vector<Active> active_;
  Partition parts_;
  bool arrived_ = false;    // in this epoch, validation records and all
  double arrival_work_ = 0; // seconds of the training pass in layers and steps
};

} // namespace

Partition partition(const Features &features, std::int64_t classes, const TrainOptions &options) {
  Partition parts;
  parts.training_counts.resize(static_cast<std::size_t>(classes));
  parts.validation_counts.resize(static_cast<std::size_t>(classes));
  const std::deque<RecordInfo> &records = features.records();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool validation = is_validation(records[i], options);
    (validation ? parts.validation : parts.training).push_back(static_cast<std::int64_t>(i));
    ++(validation ? parts.validation_counts
                  : parts.training_counts)[static_cast<std::size_t>(records[i].label)];
  }
  return parts;
}

void fit(Features &features, const std::vector<Trainer *> &trainers, const EpochDone &done,
         const Progress &progress) {
  for (const Trainer *trainer : trainers) {
    const Trainer &first = *trainers.front();
    if (trainer->options().seed != first.options().seed ||
        trainer->options().validation != first.options().validation || trainer->epoch() != first.epoch() ||
        trainer->classes() != first.classes())
      throw Error("internal error: trainers of one pass differ in seed, validation share, classes or epoch");
  }
  if (trainers.empty()) return;
  for (;;) {
    Epoch epoch(features, trainers, done, progress);
    if (epoch.empty()) return;
    epoch.run();
  }
}

} // namespace tl::train
