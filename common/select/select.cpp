#include "select/select.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "model/export.h"
#include "runtime/clock.h"
#include "select/runs_folder.h"
#include "train/report.h"
#include "json/bytes.h"

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
        candidates_(resolved(experiment, dataset, events)), folder_(options.runs, dataset.spec()) {}

  Selection run() {
    const Stopwatch watch;
    if (!folder_.predecessor().empty())
      note(options_.runs + ": process " + folder_.predecessor() +
           " did not finish here; this run goes on from there");
    plan_ = make_reuse_plan(candidates_, static_cast<std::int64_t>(dataset_.records().size()),
                            [&](const FeatureSet &set) { return stored_state(folder_.features(), set); });
    folder_.write("reuse-plan.json", "reuse", to_json(plan_, candidates_));
    if (events_.planned) events_.planned(plan_, candidates_);
    extract();
    train();
    Selection selection;
    selection.rows = rank(std::move(trials_));
    selection.skipped = skipped_.size();
    selection.best = export_best(selection.rows);
    selection.leaderboard = leaderboard(selection.rows, watch.seconds());
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

  void extract() {
    const Stopwatch watch;
    extract::ExtractOptions options;
    options.threads = options_.threads;
    options.keep_going = options_.keep_going;
    options.shuffle = true; // most candidates read the folder in this order
    options.seed = experiment_.seed;
    options.progress = events_.extracted;
    sinks_.resize(plan_.sets.size());
    for (const Pass &pass : plan_.passes) {
      const PassReport report = run_pass(plan_, pass, candidates_, dataset_, folder_.features(), options);
      for (const std::string &line : report.notes) warn(line);
      for (const data::RecordNote &record : report.extraction.warned) warn(record.id + ": " + record.reason);
      for (const data::RecordNote &record : report.extraction.skipped)
        if (skipped_.emplace(record.index, record).second)
          warn("skipped " + record.id + ": " + record.reason);
      for (const std::string &line : extract::summary(report.extraction)) note(line);
      for (std::size_t i = 0; i < pass.sets.size(); ++i) sinks_[pass.sets[i]] = report.sets[i];
    }
    for (const FeatureSet &set : plan_.sets)
      digests_.push_back(data_digest(set_folder(folder_.features(), set)));
    extract_seconds_ = watch.seconds();
  }

  void train() {
    const Stopwatch watch;
    trials_.resize(candidates_.size());
    for (std::size_t s = 0; s < plan_.sets.size(); ++s)
      for (const std::size_t c : plan_.sets[s].candidates) {
        const TrialFolder folder = folder_.trial(candidates_[c].id);
        std::optional<Trial> known = folder.load(candidates_[c], digests_[s]);
        trials_[c] = known ? std::move(*known) : train_one(c);
        if (events_.trained) events_.trained(candidates_[c], trials_[c]);
      }
    train_seconds_ = watch.seconds();
  }

  Trial train_one(std::size_t c) const {
    const std::size_t set = plan_.set_of[c];
    return train_candidate(candidates_[c], set_folder(folder_.features(), plan_.sets[set]), digests_[set],
                           folder_.trial(candidates_[c].id), {});
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

  model::Model best_model(const Row &row) const {
    const Candidate &candidate = candidates_[row.candidate];
    const Digest &data = digests_[plan_.set_of[row.candidate]];
    const TrialFolder folder = folder_.trial(candidate.id);
    try {
      return folder.best_model(candidate, data);
    } catch (const FormatError &error) {
      warn(std::string(error.what()) + "; " + candidate.name() + " is trained again");
    }
    const Trial again = train_one(row.candidate);
    if (again.failed()) throw Error(candidate.name() + ": " + again.failure);
    return folder.best_model(candidate, data);
  }

  /// Writes the best model, unless it is there. Returns its path; "" when every candidate failed.
  std::string export_best(const std::vector<Row> &rows) const {
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

  json::Value leaderboard(const std::vector<Row> &rows, double seconds) const {
    json::Value classes = json::Value::array(), skipped = json::Value::array();
    for (const std::string &name : dataset_.classes()) classes.push_back(json::escape_bytes(name));
    for (const auto &[index, record] : skipped_)
      skipped.push_back(
          {{"id", json::escape_bytes(record.id)}, {"reason", json::escape_bytes(record.reason)}});
    json::Value features = json::Value::array(), candidates = json::Value::array();
    for (std::size_t s = 0; s < plan_.sets.size(); ++s) features.push_back(features_line(s));
    for (std::size_t i = 0; i < rows.size(); ++i) candidates.push_back(candidate_line(rows[i], i + 1));
    const bool any = !rows.empty() && !rows.front().trial.failed();
    return {{"format", "tl-leaderboard"},
            {"version", 1},
            {"experiment", json::escape_bytes(experiment_.origin)},
            {"dataset", json::escape_bytes(dataset_.spec())},
            {"metric", train::name_of(experiment_.metric)},
            {"classes", classes},
            {"inputs", dataset_.records().size()},
            {"skipped", skipped},
            {"features", features},
            {"candidates", candidates},
            {"best", any ? json::Value(rows.front().trial.id) : json::Value(nullptr)},
            {"seconds", {{"extract", extract_seconds_}, {"train", train_seconds_}, {"total", seconds}}}};
  }

  json::Value features_line(std::size_t s) const {
    const shard::SinkReport &report = sinks_[s];
    const shard::Changes changes = report.changes.value_or(shard::Changes{});
    return {{"key", plan_.sets[s].key.hex()},
            {"records", report.records},
            {"written", report.written},
            {"bytes", report.bytes},
            {"changes",
             {{"added", changes.added},
              {"changed", changes.changed},
              {"relabelled", changes.relabelled},
              {"renamed", changes.renamed},
              {"removed", changes.removed},
              {"unchanged", changes.unchanged}}}};
  }

  json::Value candidate_line(const Row &row, std::size_t rank) const {
    const Candidate &candidate = candidates_[row.candidate];
    const Trial &trial = row.trial;
    json::Value line = json::Value::object();
    if (!trial.failed()) line["rank"] = rank;
    line["id"] = trial.id;
    line["name"] = json::escape_bytes(trial.name);
    line["model"] = json::escape_bytes(experiment_.models[candidate.spec.model].name);
    line["scheme"] = graph::to_json(candidate.spec.scheme);
    line["options"] = train::to_json(candidate.spec.options);
    line["features"] = plan_.sets[plan_.set_of[row.candidate]].key.hex();
    line["status"] = trial.failed() ? "failed" : "ok";
    if (trial.failed()) {
      line["failure"] = json::escape_bytes(trial.failure);
    } else {
      line["score"] = trial.score;
      line["training_records"] = trial.training_records;
      line["epochs"] = trial.epochs;
      line["best_epoch"] = trial.best_epoch;
      line["validation"] = trial.validation;
    }
    line["seconds"] = trial.seconds;
    line["cached"] = trial.cached;
    return line;
  }

  const Experiment &experiment_;
  const data::Dataset &dataset_;
  const SelectOptions &options_;
  const SelectEvents &events_;
  const std::vector<Candidate> candidates_;
  RunsFolder folder_; // after the candidates: an experiment that is refused leaves no trace
  ReusePlan plan_;
  std::vector<shard::SinkReport> sinks_;              // of each set
  std::vector<Digest> digests_;                       // of each set: the state of the data
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
