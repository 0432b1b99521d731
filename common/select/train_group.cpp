#include "select/train_group.h"

#include "cli/error.h"
#include "model/load.h"
#include "model/program.h"
#include "model/tensors.h"
#include "runtime/clock.h"
#include "select/feature_store.h"
#include "shard/folder.h"
#include "train/fit.h"
#include "train/sources.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>

namespace tl::select {

namespace {

json::Value epoch_line(const train::EpochResult &epoch) {
  json::Value line = {{"epoch", epoch.epoch}, {"loss", epoch.train.loss}, {"lr", epoch.train.lr}};
  line["validation_loss"] = epoch.validation->loss();
  line["accuracy"] = epoch.validation->accuracy();
  line["balanced_accuracy"] = epoch.validation->balanced_accuracy();
  return line;
}

/// The parameters that training gave other contents.
std::vector<shard::NamedTensor> changed_weights(const model::Model &before, const model::Model &after) {
  std::vector<shard::NamedTensor> weights;
  for (std::size_t i = 0; i < after.parameters.size(); ++i)
    if (!after.parameters[i].is_same(before.parameters[i]))
      weights.push_back({after.graph.parameters[i].name, model::from_torch(after.parameters[i].detach())});
  return weights;
}

/// What another run must not find: the figures of a training that broke off.
void fail(Trial &trial, const std::string &why, bool final) {
  trial.failure = why;
  trial.final = final;
  trial.epochs = trial.best_epoch = 0;
  trial.validation = nullptr;
  trial.history = json::Value::array();
}

/// Makes a failed trial of what a candidate alone threw; false for what is not its fault.
bool is_own_failure(const std::exception_ptr &error, Trial &trial) {
  try {
    std::rethrow_exception(error);
  } catch (const train::NotFinite &failure) {
    fail(trial, failure.what(), true);
  } catch (const FormatError &) {
    return false;
  } catch (const SystemError &) {
    return false;
  } catch (const Error &failure) {
    if (failure.code() == ExitCode::interrupted || failure.code() == ExitCode::closed_pipe) return false;
    fail(trial, failure.what(), false);
  } catch (const c10::Error &failure) {
    fail(trial, model::first_line(failure.what_without_backtrace()), false);
  } catch (const std::bad_alloc &) {
    fail(trial, "out of memory", false);
  }
  return true;
}

/// The caller's data set outlives the training.
std::shared_ptr<const data::Dataset> borrowed(const data::Dataset &dataset) {
  return {std::shared_ptr<void>(), &dataset};
}

/// One candidate in training.
struct Seated {
  Assignment assignment;
  model::Model model; // every parameter drawn
  std::unique_ptr<train::Trainer> trainer;
  Trial trial;
  double before = 0; // seconds of earlier runs
  double own = 0;    // seconds of its own steps
  bool done = false;
};

class GroupTraining {
public:
  GroupTraining(const GroupInput &input, const std::vector<Candidate> &candidates, const Group &group,
                const Digest &data, const GroupEvents &events)
      : input_(input), candidates_(candidates), group_(group), graph_(input.graphs.graphs[group.graph]),
        data_(data), events_(events) {}

  void run(const std::vector<Assignment> &work) {
    for (const Assignment &assignment : work) {
      const std::vector<graph::ValueId> &reads = input_.graphs.reads[assignment.candidate];
      outputs_.insert(outputs_.end(), reads.begin(), reads.end());
    }
    std::sort(outputs_.begin(), outputs_.end());
    outputs_.erase(std::unique(outputs_.begin(), outputs_.end()), outputs_.end());
    std::map<std::int64_t, std::vector<Seated>> by_epoch; // those of one pass have done equally many
    for (const Assignment &assignment : work) {
      std::optional<Seated> seated = seat(assignment);
      if (!seated) continue;
      const std::int64_t epoch = seated->trainer->epoch();
      by_epoch[epoch].push_back(std::move(*seated));
    }
    for (auto &[epoch, seats] : by_epoch) train(seats);
  }

private:
  /// Nothing if it failed before the first step.
  std::optional<Seated> seat(const Assignment &assignment) const {
    const Candidate &candidate = candidates_[assignment.candidate];
    const Prepared &prepared = *candidate.prepared;
    const train::TrainOptions &options = candidate.spec.options;
    Seated seated;
    seated.assignment = assignment;
    Trial &trial = seated.trial;
    trial.id = candidate.id;
    trial.name = candidate.name();
    trial.data = data_;
    trial.history = json::Value::array();
    try {
      seated.model = prepared.model;
      model::initialise(seated.model, options.seed);
      if (input_.warm_start)
        trial.warm_start = events_.folder(assignment.candidate).warm_start(candidate, seated.model);
      seated.trainer = std::make_unique<train::Trainer>(
          seated.model, prepared.inputs, static_cast<std::int64_t>(input_.dataset.classes().size()), options);
    } catch (...) {
      if (!is_own_failure(std::current_exception(), trial)) throw;
      finish(seated, 0);
      return std::nullopt;
    }
    go_on(seated, candidate);
    return seated;
  }

  /// From where an earlier training stopped, if it did.
  void go_on(Seated &seated, const Candidate &candidate) const {
    const TrialFolder folder = events_.folder(seated.assignment.candidate);
    std::optional<Trial> before = folder.load(candidate, data_, input_.warm_start);
    if (!before || before->failed()) return;
    const std::optional<train::TrainerState> state = folder.load_state(*before);
    if (!state) return;
    seated.trainer->restore(*state, folder.path);
    seated.trial = std::move(*before);
    seated.trial.cached = false;
    seated.before = seated.trial.seconds;
  }

  void train(std::vector<Seated> &seats) {
    const Stopwatch watch;
    std::vector<train::Seat> chairs;
    for (const Seated &seated : seats)
      chairs.push_back({seated.trainer.get(), columns_of(seated), seated.assignment.epochs});
    train::FitEvents events;
    events.done = [&](std::size_t s, const train::EpochResult &result) {
      record(seats[s], result);
      if (seats[s].trainer->finished() || result.epoch >= seats[s].assignment.epochs)
        finish(seats[s], shared(watch, seats));
    };
    events.failed = [&](std::size_t s, const std::exception_ptr &error) {
      if (!is_own_failure(error, seats[s].trial)) return false;
      finish(seats[s], shared(watch, seats));
      return true;
    };
    try {
      train::Features features = make_features();
      train::fit(features, std::move(chairs), events);
      for (const std::string &line : features.source().skipped()) events_.skipped(line);
    } catch (...) { // what they share fails them all
      for (Seated &seated : seats) {
        if (seated.done) continue;
        if (!is_own_failure(std::current_exception(), seated.trial)) throw;
        finish(seated, shared(watch, seats));
      }
    }
  }

  /// Of the seconds so far, one candidate's share of what all wait for.
  static double shared(const Stopwatch &watch, const std::vector<Seated> &seats) {
    double own = 0;
    for (const Seated &seated : seats) own += seated.own;
    return std::max(watch.seconds() - own, 0.0) / static_cast<double>(seats.size());
  }

  std::vector<std::size_t> columns_of(const Seated &seated) const {
    std::vector<std::size_t> columns;
    for (const graph::ValueId id : input_.graphs.reads[seated.assignment.candidate])
      columns.push_back(static_cast<std::size_t>(std::lower_bound(outputs_.begin(), outputs_.end(), id) -
                                                 outputs_.begin()));
    return columns;
  }

  void record(Seated &seated, const train::EpochResult &result) const {
    Trial &trial = seated.trial;
    seated.own += result.train_seconds;
    trial.epochs = result.epoch;
    trial.training_records = result.train.records;
    trial.history.push_back(epoch_line(result));
    if (!result.best) return;
    trial.best_epoch = result.epoch;
    trial.score = result.validation->score(seated.trainer->options().monitor);
    trial.validation = result.validation->to_json();
  }

  /// Saves, so that a kill later on loses nothing of this candidate.
  void finish(Seated &seated, double share) const {
    seated.done = true;
    Trial &trial = seated.trial;
    trial.seconds = seated.before + seated.own + share;
    const TrialFolder folder = events_.folder(seated.assignment.candidate);
    std::vector<shard::NamedTensor> weights;
    if (!trial.failed()) {
      if (!seated.trainer->finished()) folder.save_state(trial, seated.trainer->state());
      weights = changed_weights(seated.model, seated.trainer->best());
    }
    folder.save(trial, weights);
    if (trial.failed() || seated.trainer->finished()) folder.remove_state();
    events_.done(seated.assignment.candidate, trial);
  }

  train::Features make_features() const {
    train::SourceOptions how;
    how.threads = input_.threads;
    how.keep_going = input_.keep_going;
    const std::uint64_t seed = candidates_[group_.candidates.front()].spec.options.seed;
    how.order = seed; // as with tl-train --by-content
    how.hashes = input_.hashes;
    std::vector<std::string> folders;
    std::vector<graph::ValueId> arriving;
    std::unique_ptr<train::RecordSource> source;
    if (group_.records) {
      source = train::dataset_source(borrowed(input_.dataset), graph_.preprocess, seed, how);
      arriving.push_back(0);
    }
    for (const std::size_t s : group_.sets) {
      const FeatureSet &set = input_.plan.sets[s];
      const std::string folder = set_folder(input_.store, set);
      arriving.push_back(set.value);
      if (source)
        folders.push_back(folder);
      else
        source = train::shard_source(shard::open_shards(folder), graph_.preprocess, how);
    }
    std::shared_ptr<const model::FrozenProgram> frozen;
    if (arriving != outputs_)
      frozen = std::make_shared<model::FrozenProgram>(graph_.merged->model(), arriving, outputs_);
    train::FeatureOptions options;
    options.cache_bytes = group_.cache;
    options.keep_mapped = true;
    return train::Features(train::joined_source(std::move(source), folders, graph_.preprocess),
                           std::move(frozen), static_cast<std::int64_t>(input_.dataset.classes().size()),
                           options);
  }

  const GroupInput &input_;
  const std::vector<Candidate> &candidates_;
  const Group &group_;
  const SharedGraph &graph_;
  const Digest &data_;
  const GroupEvents &events_;
  std::vector<graph::ValueId> outputs_; // that the frozen layers give, ascending
};

} // namespace

void train_group(const GroupInput &input, const std::vector<Candidate> &candidates, std::size_t group,
                 const std::vector<Assignment> &work, const Digest &data, const GroupEvents &events) {
  GroupTraining(input, candidates, input.plan.groups[group], data, events).run(work);
}

} // namespace tl::select
