#include "train/run.h"

#include "cli/error.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "model/export.h"
#include "runtime/clock.h"
#include "train/checkpoint.h"
#include "train/metrics_log.h"
#include "train/report.h"
#include "train/tiers.h"
#include "json/bytes.h"

#include <filesystem>

namespace tl::train {

namespace {

constexpr std::int64_t kVerified = 3; // records that the exported model is tried on

class Run {
public:
  Run(const RunFolder &folder, Setup setup, const TrainOptions &training, const RunOptions &options)
      : folder_(folder), setup_(std::move(setup)), training_(training), options_(options),
        classes_(static_cast<std::int64_t>(setup_.classes.size())),
        trainer_(setup_.network.model, setup_.network.start, classes_, training),
        features_(std::move(setup_.source), setup_.network.frozen, classes_, {options.cache_bytes, 0}) {
    const graph::Graph &graph = setup_.network.model.graph;
    now_.identity.network = graph.values[static_cast<std::size_t>(graph.output)].hash;
    now_.identity.scheme = graph::to_json(setup_.scheme);
    now_.identity.preprocess = data::to_json(setup_.preprocess);
    now_.identity.classes = setup_.classes;
    now_.identity.options = training;
  }

  RunReport run() {
    const Stopwatch watch;
    for (const std::string &note : setup_.notes) options_.note(note);
    restore();
    MetricsLog log(folder_.metrics(), trainer_.epoch(), options_.metrics_copy);
    log.add(start_line(setup_, training_, trainer_.epoch()));
    train(log);
    const std::string waste = trainer_.out_of_patience()
                                  ? ", no better one for " + std::to_string(training_.patience) + " epochs"
                                  : "";
    options_.note("best epoch " + std::to_string(trainer_.best_epoch()) + " of " +
                  std::to_string(trainer_.epoch()) + waste +
                  (now_.best.is_null() ? "" : "; " + describe_recall(now_.best, setup_.classes)));
    write_model();
    RunReport report;
    report.summary = summary(watch.seconds());
    report.skipped = now_.records.value("skipped", std::int64_t{0});
    log.add(report.summary);
    options_.note("wrote " + folder_.model());
    return report;
  }

private:
  void restore() {
    if (!options_.resume) return;
    std::optional<Checkpoint> found = load_checkpoint(folder_.checkpoint());
    if (!found) {
      options_.note(folder_.path() + ": no checkpoint yet; training starts at the beginning");
      return;
    }
    refuse_changes(found->identity);
    trainer_.restore(found->state, folder_.checkpoint());
    now_.records = found->records;
    now_.best = found->best;
    options_.note("continuing after epoch " + std::to_string(trainer_.epoch()));
    if (trainer_.finished()) return;
    features_.drain();
    now_.identity.records = records_digest(features_.records());
    refuse_changes(found->identity);
  }

  void refuse_changes(const Identity &before) const {
    std::string list;
    for (const std::string &change : differences(before, now_.identity))
      list += (list.empty() ? "" : ", ") + change;
    if (!list.empty())
      throw Error(folder_.path() + ": cannot be resumed, because this changed: " + list +
                  "; undo that, or start anew with --force");
  }

  void train(MetricsLog &log) {
    std::optional<cli::Progress> progress;
    const auto begin = [&] {
      if (trainer_.finished()) return;
      const std::optional<std::int64_t> expected = features_.source().expected();
      progress.emplace("epoch " + std::to_string(trainer_.epoch() + 1),
                       static_cast<std::uint64_t>(expected.value_or(0)));
    };
    begin();
    fit(
        features_, {&trainer_},
        [&](std::size_t, const EpochResult &result) {
          progress.reset();
          if (!now_.identity.records) arrived();
          if (result.best && result.validation) now_.best = result.validation->to_json();
          json::Value line = epoch_line(result, trainer_.steps());
          if (result.arrival) add_arrival(line, *result.arrival);
          log.add(line);
          // After the metrics: a line too many is dropped by the next run, one too few never comes back.
          now_.state = trainer_.state();
          save_checkpoint(folder_.checkpoint(), now_);
          options_.note(describe(result, training_.epochs));
          begin();
        },
        [&](std::int64_t records) { progress->advance(static_cast<std::uint64_t>(records)); });
  }

  /// Through a pipe of more than one shard: how fast, and what held it up.
  void add_arrival(json::Value &line, const ArrivalWork &work) const {
    const std::optional<Arrival> arrival = features_.source().arrival();
    if (!arrival || arrival->delivery.records == 0) return;
    const auto records = static_cast<std::int64_t>(features_.records().size());
    line["arrival"] = arrival_json(*arrival, work, records, setup_.sent, setup_.codec);
    options_.note(describe_arrival(*arrival, work.seconds));
  }

  /// Every record is here: what they are, and what to warn of.
  void arrived() {
    now_.identity.records = records_digest(features_.records());
    const Partition parts = partition(features_, classes_, training_);
    const RecordSource &source = features_.source();
    now_.records = {{"training", parts.training_counts},
                    {"validation", parts.validation_counts},
                    {"skipped", source.skipped().size()},
                    {"skipped_before", source.skipped_before()}};
    for (const std::string &reason : source.skipped()) options_.warn("skipped " + reason);
    if (source.skipped_before() > 0)
      options_.note(std::to_string(source.skipped_before()) + " records were skipped by the extraction");
    options_.note(std::to_string(parts.training.size()) + " records for training, " +
                  std::to_string(parts.validation.size()) + " for validation, " + std::to_string(classes_) +
                  " classes");
    for (std::size_t c = 0; c < setup_.classes.size(); ++c) {
      const std::string name = "class '" + cli::printable(setup_.classes[c]) + "'";
      if (parts.training_counts[c] == 0) options_.warn(name + " has no record to train on");
      if (parts.validation_counts[c] == 0 && training_.validation > 0)
        options_.warn(name + " has no record in the validation share");
    }
    const FeatureCounters counters = features_.counters();
    if (counters.cached > 0)
      options_.note("kept in memory: " + std::to_string(counters.cached) + " records, " +
                    cli::human_bytes(static_cast<double>(counters.cached_bytes)));
  }

  void write_model() {
    const model::Model best = trainer_.best();
    const json::Value document = model_document(setup_, training_, trainer_.best_epoch(), now_.best);
    json::validate(document, "model", "the model's description");
    const std::string unproved = folder_.unproved_model();
    model::save_model(best, unproved, {{"tl.json", json::pretty(document)}});
    verify_export(setup_.network, best, unproved, kVerified);
    std::error_code failed;
    std::filesystem::rename(unproved, folder_.model(), failed);
    if (failed) throw SystemError("rename to " + folder_.model(), failed.value());
    cli::sync_folder(folder_.path());
  }

  json::Value summary(double seconds) const {
    json::Value line = metrics_line("summary");
    line["epoch"] = trainer_.epoch();
    line["steps"] = trainer_.steps();
    line["best_epoch"] = trainer_.best_epoch();
    line["stopped"] = trainer_.out_of_patience() ? "patience" : "epochs";
    line["validation"] = now_.best;
    line["records"] = now_.records;
    line["cached"] = features_.counters().cached;
    line["seconds"] = seconds;
    line["file"] = json::escape_bytes(folder_.model());
    return line;
  }

  const RunFolder &folder_;
  Setup setup_;
  const TrainOptions &training_;
  const RunOptions &options_;
  std::int64_t classes_;
  Trainer trainer_;
  Features features_;
  Checkpoint now_; // as it would be saved
};

} // namespace

RunReport run_training(const RunFolder &folder, Setup setup, const TrainOptions &training,
                       const RunOptions &options) {
  return Run(folder, std::move(setup), training, options).run();
}

} // namespace tl::train
