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

/// The columns of the rows that a seat takes.
Rows columns_of(const Rows &rows, const std::vector<std::size_t> &columns) {
  Rows chosen = rows;
  chosen.values.clear();
  for (const std::size_t column : columns) chosen.values.push_back(rows.values.at(column));
  return chosen;
}

/// A seat that is still taken.
struct Active {
  std::size_t index; // in the caller's list
  Seat seat;
  EpochLoss loss;
  std::optional<Evaluation> validation;
  double seconds = 0; // in this epoch
  bool failed = false;

  bool done() const { return failed || seat.trainer->finished() || seat.trainer->epoch() >= seat.until; }
};

/// One epoch's run over trainers that are not finished.
class Epoch {
public:
  Epoch(Features &features, std::vector<Active> &active, const FitEvents &events)
      : features_(features), active_(active), events_(events),
        options_(active.front().seat.trainer->options()) {
    for (Active &item : active_) item.seconds = 0;
  }

  void run() {
    const Stopwatch watch;
    const FeatureCounters before = features_.counters();
    train();
    each([](Active &item) { item.loss = item.seat.trainer->end_epoch(); });
    validate();
    const FeatureCounters after = features_.counters();
    each([&](Active &item) {
      EpochResult result;
      result.epoch = item.seat.trainer->epoch();
      result.train = item.loss;
      result.validation = item.validation;
      result.best = item.seat.trainer->judge(item.validation);
      result.seconds = watch.seconds();
      result.waited = after.waited - before.waited;
      result.frozen_seconds = after.frozen_seconds - before.frozen_seconds;
      result.train_seconds = item.seconds;
      result.arrival = arrival_;
      result.records = static_cast<std::int64_t>(parts_.training.size() + parts_.validation.size());
      results_.emplace_back(item.index, std::move(result));
    });
    for (const auto &[index, result] : results_) events_.done(index, result);
  }

private:
  /// Work of each trainer that has not failed; one that fails now is the caller's to judge.
  template <typename Work> void each(const Work &work) {
    for (Active &item : active_) {
      if (item.failed) continue;
      const Stopwatch step;
      try {
        work(item);
      } catch (...) {
        if (!events_.failed || !events_.failed(item.index, std::current_exception())) throw;
        item.failed = true;
      }
      item.seconds += step.seconds();
    }
  }

  bool all_failed() const {
    return std::all_of(active_.begin(), active_.end(), [](const Active &item) { return item.failed; });
  }

  void train() {
    const std::int64_t epoch = active_.front().seat.trainer->epoch();
    const bool counts = std::any_of(active_.begin(), active_.end(),
                                    [](const Active &item) { return item.seat.trainer->needs_counts(); });
    if (!features_.complete() && (epoch > 0 || counts)) features_.drain();
    const bool arriving = !features_.complete();
    const double frozen = features_.counters().frozen_seconds;
    if (!arriving) divide();
    if (counts)
      for (const Active &item : active_) item.seat.trainer->set_counts(parts_.training_counts);
    const auto pass = arriving ? features_.arrive() : features_.pass(order(epoch));
    ArrivalWork work;
    std::optional<Stopwatch> since_first;
    while (const std::optional<Rows> rows = pass->next()) {
      if (since_first)
        work.later_records += rows->size();
      else
        since_first.emplace();
      if (events_.progress) events_.progress(rows->size());
      const Rows chosen = arriving ? training_rows(*rows, options_) : *rows;
      if (chosen.size() == 0) continue;
      each([&](Active &item) {
        const std::vector<std::size_t> &columns = item.seat.columns;
        item.seat.trainer->feed(columns.empty() ? chosen : columns_of(chosen, columns));
      });
      if (all_failed() && !arriving) return;
    }
    if (!arriving) return;
    divide();
    work.later_seconds = since_first ? since_first->seconds() : 0;
    work.seconds = features_.counters().frozen_seconds - frozen;
    for (const Active &item : active_) work.seconds += item.seconds;
    arrival_ = work;
  }

  std::vector<std::int64_t> order(std::int64_t epoch) const {
    if (epoch == 0) return parts_.training;
    return epoch_order(features_.records(), parts_.training, options_.seed, epoch);
  }

  void divide() {
    parts_ = partition(features_, active_.front().seat.trainer->classes(), options_);
    check_data(parts_, features_.records().size(), options_);
  }

  void validate() {
    if (parts_.validation.empty() || all_failed()) return;
    for (Active &item : active_) item.validation.emplace(item.seat.trainer->classes());
    const auto pass = features_.pass(parts_.validation);
    while (const std::optional<Rows> rows = pass->next()) {
      if (events_.progress && !arrival_) events_.progress(rows->size());
      each([&](Active &item) {
        const std::vector<std::size_t> &columns = item.seat.columns;
        item.seat.trainer->evaluate(columns.empty() ? *rows : columns_of(*rows, columns), *item.validation);
      });
    }
  }

  Features &features_;
  std::vector<Active> &active_;
  const FitEvents &events_;
  const TrainOptions &options_;
  std::vector<std::pair<std::size_t, EpochResult>> results_;
  Partition parts_;
  std::optional<ArrivalWork> arrival_; // of an arrival in this epoch, validation records and all
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

void fit(Features &features, std::vector<Seat> seats, const FitEvents &events) {
  std::vector<Active> active;
  for (std::size_t i = 0; i < seats.size(); ++i) {
    const Trainer &first = *seats.front().trainer, &other = *seats[i].trainer;
    if (other.options().seed != first.options().seed ||
        other.options().validation != first.options().validation || other.epoch() != first.epoch() ||
        other.classes() != first.classes())
      throw Error("internal error: trainers of one pass differ in seed, validation share, classes or epoch");
    active.push_back({i, std::move(seats[i]), {}, {}});
  }
  for (;;) {
    active.erase(std::remove_if(active.begin(), active.end(), [](const Active &item) { return item.done(); }),
                 active.end());
    if (active.empty()) return;
    Epoch(features, active, events).run();
  }
}

void fit(Features &features, const std::vector<Trainer *> &trainers, const EpochDone &done,
         const Progress &progress) {
  std::vector<Seat> seats;
  for (Trainer *trainer : trainers) {
    Seat seat;
    seat.trainer = trainer;
    seats.push_back(std::move(seat));
  }
  fit(features, std::move(seats), {done, {}, progress});
}

} // namespace tl::train
