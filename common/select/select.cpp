#include "select/select.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "model/export.h"
#include "runtime/clock.h"
#include "runtime/host.h"
#include "select/cycle.h"
#include "select/leaderboard_document.h"
#include "select/measure.h"
#include "select/runs_folder.h"
#include "select/train_group.h"
#include "train/report.h"

#include <algorithm>
#include <map>

namespace tl::select {

namespace {

constexpr std::int64_t kVerified = 3; // records that the exported model is tried on

void check_labels(const data::Dataset &dataset) {
  if (dataset.classes().size() < 2)
    throw Error(dataset.spec() + ": has " + std::to_string(dataset.classes().size()) +
                " labelled classes; there must be two or more to tell apart");
  for (const data::Record &record : dataset.records())
    if (record.label < 0)
      throw Error(dataset.spec() + ": record '" + cli::printable(record.id) +
                  "' has no label; give it one, or leave it out");
}

std::vector<Candidate> resolved(const Experiment &experiment, const data::Dataset &dataset,
                                const SelectEvents &events) {
  check_labels(dataset);
  Candidates found = resolve(experiment, dataset);
  for (const std::string &line : found.notes)
    if (events.warn) events.warn(line);
  return std::move(found.all);
}

class Run {
public:
  Run(const Experiment &experiment, const data::Dataset &dataset, const SelectOptions &options,
      const SelectEvents &events)
      : experiment_(experiment), dataset_(dataset), options_(options), events_(events),
        candidates_(resolved(experiment, dataset, events)), graphs_(share(candidates_)),
        folder_(options.runs, dataset.spec()), keeper_(options.runs, dataset, options.verify) {}

  Selection run() {
    const Stopwatch watch;
    if (!folder_.predecessor().empty())
      note(options_.runs + ": process " + folder_.predecessor() +
           " did not finish here; this run goes on from there");
    for (const std::string &line : keeper_.notes()) warn(line);
    try {
      make_plan();
      if (options_.distribute && !options_.distribute(plan_, candidates_)) {
        folder_.finished();
        return {};
      }
      extract();
      search();
    } catch (const FormatError &) {
      keeper_.distrust(); // a shard that was whole is not any more: the next run finds it
      throw;
    }
    Selection selection;
    selection.rows = rank(std::move(trials_));
    selection.skipped = skipped_.size();
    selection.best = export_best(selection.rows);
    selection.leaderboard = leaderboard_document({experiment_, dataset_, candidates_, plan_, sinks_, skipped_,
                                                  extract_seconds_, train_seconds_, watch.seconds()},
                                                 selection.rows);
    const store::Cycle cycle =
        keeper_.finish({experiment_, candidates_, plan_, selection.rows, skipped_, extract_seconds_,
                        train_seconds_, watch.seconds(), options_.warm_start});
    note(summary(cycle));
    selection.leaderboard["cycle"] = to_json(cycle);
    folder_.write("leaderboard.json", "leaderboard", selection.leaderboard);
    folder_.finished();
    return selection;
  }

private:
  void note(const std::string &line) const {
    if (events_.note) events_.note(line);
  }
  void warn(const std::string &line) const {
    if (events_.warn) events_.warn(line);
  }

  void make_plan() {
    Costs costs = load_costs(folder_.costs()).value_or(Costs{});
    MeasureOptions measuring;
    measuring.threads = options_.threads;
    if (measure(costs, graphs_, candidates_, dataset_, options_.runs, measuring))
      folder_.write("costs.json", "costs", to_json(costs));
    PlanOptions planning;
    planning.records = static_cast<std::int64_t>(dataset_.records().size());
    planning.expected = expected_records(planning.records, folder_.expected_records());
    planning.disk_budget = options_.disk_budget ? options_.disk_budget : experiment_.budget.disk;
    const auto memory = options_.memory_budget ? options_.memory_budget : experiment_.budget.memory;
    planning.memory_budget = memory.value_or(usable_memory() / 2);
    planning.keep = options_.keep;
    planning.fuse = options_.fuse;
    double names = 0;
    for (const data::Record &record : dataset_.records()) names += static_cast<double>(record.id.size());
    planning.id_bytes = names / static_cast<double>(std::max<std::size_t>(dataset_.records().size(), 1));
    plan_ = make_reuse_plan(candidates_, graphs_, costs, planning,
                            [&](const FeatureSet &set) { return stored_state(folder_.features(), set); });
    for (const std::string &line : make_room(folder_.features(), plan_)) note(line);
    folder_.write("reuse-plan.json", "reuse", to_json(plan_, candidates_, graphs_));
    for (const Group &group : plan_.groups)
      if (group.memory > plan_.memory_budget)
        warn(candidates_[group.candidates.front()].name() + " alone takes about " +
             cli::human_bytes(static_cast<double>(group.memory)) + " of memory, more than the budget of " +
             cli::human_bytes(static_cast<double>(plan_.memory_budget)));
    if (events_.planned) events_.planned(plan_, candidates_, graphs_);
  }

  void extract() {
    const Stopwatch watch;
    extract::ExtractOptions options =
        extract_options(experiment_.seed, options_.threads, options_.keep_going, events_.extracted);
    options.hashes = &keeper_;
    shard::SinkOptions sink;
    sink.trusted = keeper_.trusted();
    sinks_.resize(plan_.sets.size());
    for (const Pass &pass : plan_.passes) {
      const PassReport report = run_pass(plan_, pass, graphs_, dataset_, folder_.features(), options, sink);
      keeper_.measured(plan_, pass, report.extraction);
      for (const std::string &line : report.notes) warn(line);
      for (const data::RecordNote &record : report.extraction.warned) warn(record.id + ": " + record.reason);
      for (const data::RecordNote &record : report.extraction.skipped)
        if (skipped_.emplace(record.index, record).second)
          warn("skipped " + record.id + ": " + record.reason);
      for (const std::string &line : extract::summary(report.extraction)) note(line);
      for (std::size_t i = 0; i < pass.sets.size(); ++i) sinks_[pass.sets[i]] = report.sets[i];
    }
    for (const std::string &line : trim(folder_.features(), plan_)) note(line);
    for (const Group &group : plan_.groups) digests_.push_back(digest_of(group));
    extract_seconds_ = watch.seconds();
  }

  /// Of the records that a group trains on.
  Digest digest_of(const Group &group) {
    const std::vector<std::string> folders = folders_of_records(
        plan_, group, folder_.features(), [&](std::size_t s) { return sinks_[s].skipped == 0; });
    if (!folders.empty()) return data_digest(folders);
    if (!read_digest_) read_digest_ = data_digest(dataset_, options_.threads, &keeper_);
    return *read_digest_;
  }

  /// Rung by rung; without a search by rungs, everything is one.
  void search() {
    const Stopwatch watch;
    trials_.resize(candidates_.size());
    Search search(experiment_.search, candidates_.size());
    for (auto rung = search.next(); !rung.empty(); rung = search.next()) {
      train(rung);
      std::vector<Score> scores;
      for (const Assignment &assignment : rung) {
        const Trial &trial = trials_[assignment.candidate];
        scores.push_back({assignment.candidate, trial.failed() ? std::nullopt : std::optional(trial.score)});
      }
      search.report(scores);
    }
    train_seconds_ = watch.seconds();
  }

  /// Afterwards trials_ has a result of these candidates with at least the epochs that they were assigned.
  void train(const std::vector<Assignment> &assignments) {
    std::vector<std::vector<Assignment>> work(plan_.groups.size());
    for (Assignment assignment : assignments) {
      const std::size_t c = assignment.candidate, g = plan_.group_of[c];
      const train::TrainOptions &options = candidates_[c].spec.options;
      assignment.epochs = std::min(assignment.epochs, options.epochs);
      if (!trials_[c].id.empty() && trials_[c].reached(assignment.epochs, options.patience)) continue;
      std::optional<Trial> known =
          folder_.trial(candidates_[c].id).load(candidates_[c], digests_[g], options_.warm_start);
      if (!known || !known->reached(assignment.epochs, options.patience))
        work[g].push_back(assignment);
      else
        trained(c, std::move(*known));
    }
    for (std::size_t g = 0; g < work.size(); ++g)
      if (!work[g].empty())
        train_one_group(g, work[g], [&](std::size_t c, Trial trial) { trained(c, std::move(trial)); });
  }

  void trained(std::size_t c, Trial trial) {
    trials_[c] = std::move(trial);
    if (events_.trained) events_.trained(candidates_[c], trials_[c]);
  }

  void train_one_group(std::size_t g, const std::vector<Assignment> &work,
                       const std::function<void(std::size_t, Trial)> &done) {
    GroupEvents events;
    events.folder = [&](std::size_t c) { return folder_.trial(candidates_[c].id); };
    events.done = done;
    events.skipped = [&](const std::string &line) { skip(line); };
    train_group({graphs_, plan_, dataset_, folder_.features(), options_.threads, options_.keep_going,
                 options_.warm_start, &keeper_},
                candidates_, g, work, digests_[g], events);
  }

  /// "id: reason" of a record that a group could not decode.
  void skip(const std::string &line) {
    for (std::size_t i = 0; i < dataset_.records().size(); ++i) {
      const std::string &id = dataset_.records()[i].id, start = cli::printable(id) + ": ";
      if (line.compare(0, start.size(), start) != 0) continue;
      const auto index = static_cast<std::uint32_t>(i);
      if (skipped_.emplace(index, data::RecordNote{index, id, line.substr(start.size())}).second)
        warn("skipped " + line);
      return;
    }
  }

  /// What tl-train would have set up for this candidate.
  train::Setup setup_of(const Candidate &candidate) const {
    train::Setup setup;
    setup.network.model = candidate.prepared->model;
    setup.network.arriving = setup.network.start = candidate.prepared->inputs;
    setup.classes = dataset_.classes();
    setup.preprocess = candidate.prepared->preprocess;
    setup.scheme = candidate.spec.scheme;
    return setup;
  }

  model::Model best_model(const Row &row) {
    const Candidate &candidate = candidates_[row.candidate];
    const Digest &data = digests_[plan_.group_of[row.candidate]];
    const TrialFolder folder = folder_.trial(candidate.id);
    try {
      return folder.best_model(candidate, data);
    } catch (const FormatError &error) {
      warn(std::string(error.what()) + "; " + candidate.name() + " is trained again");
    }
    train_one_group(plan_.group_of[row.candidate], {{row.candidate, row.trial.epochs}},
                    [](std::size_t, const Trial &again) {
                      if (again.failed()) throw Error(again.name + ": " + again.failure);
                    });
    return folder.best_model(candidate, data);
  }

  /// Writes the best model, unless it is there. Returns its path; "" when every candidate failed.
  std::string export_best(const std::vector<Row> &rows) {
    if (rows.empty() || rows.front().trial.failed()) {
      folder_.remove_best(); // of an earlier experiment: it would pass for this one's
      return "";
    }
    const Row &row = rows.front();
    if (folder_.best_is(row.trial)) return folder_.best_model();
    const Candidate &candidate = candidates_[row.candidate];
    const model::Model model = best_model(row);
    const train::Setup setup = setup_of(candidate);
    const json::Value document =
        train::model_document(setup, candidate.spec.options, row.trial.best_epoch, row.trial.validation);
    json::validate(document, "model", "the model's description");
    folder_.remove_best();
    model::save_model(model, folder_.best_model(), {{"tl.json", json::pretty(document)}});
    train::verify_export(setup.network, model, folder_.best_model(), kVerified);
    folder_.best_written(row.trial);
    return folder_.best_model();
  }

  const Experiment &experiment_;
  const data::Dataset &dataset_;
  const SelectOptions &options_;
  const SelectEvents &events_;
  const std::vector<Candidate> candidates_;
  const SharedGraphs graphs_;
  RunsFolder folder_; // after the candidates: an experiment that is refused leaves no trace
  CycleKeeper keeper_;
  ReusePlan plan_;
  std::vector<shard::SinkReport> sinks_;              // of each set
  std::vector<Digest> digests_;                       // of each group: the state of its data
  std::optional<Digest> read_digest_;                 // of the data set, where it was read for it
  std::map<std::uint32_t, data::RecordNote> skipped_; // by index
  std::vector<Trial> trials_;                         // of each candidate
  double extract_seconds_ = 0, train_seconds_ = 0;
};

} // namespace

Selection select(const Experiment &experiment, const data::Dataset &dataset, const SelectOptions &options,
                 const SelectEvents &events) {
  return Run(experiment, dataset, options, events).run();
}

} // namespace tl::select
