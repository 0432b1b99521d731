#include "select/leaderboard_document.h"

#include "json/bytes.h"

namespace tl::select {

namespace {

json::Value features_line(const FeatureSet &set, const shard::SinkReport &report) {
  return {{"key", set.key.hex()},
          {"records", report.records},
          {"written", report.written},
          {"bytes", report.bytes},
          {"changes", shard::to_json(report.changes.value_or(shard::Changes{}))}};
}

json::Value candidate_line(const LeaderboardInput &input, const Row &row, std::size_t rank) {
  const Candidate &candidate = input.candidates[row.candidate];
  const Trial &trial = row.trial;
  json::Value features = json::Value::array();
  for (const std::size_t s : input.plan.groups[input.plan.group_of[row.candidate]].sets)
    features.push_back(input.plan.sets[s].key.hex());
  json::Value line = json::Value::object();
  if (!trial.failed()) line["rank"] = rank;
  line["id"] = trial.id;
  line["name"] = json::escape_bytes(trial.name);
  line["model"] = json::escape_bytes(input.experiment.models[candidate.spec.model].name);
  line["scheme"] = graph::to_json(candidate.spec.scheme);
  line["options"] = train::to_json(candidate.spec.options);
  line["features"] = features;
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

} // namespace

json::Value leaderboard_document(const LeaderboardInput &input, const std::vector<Row> &rows) {
  json::Value classes = json::Value::array(), skipped = json::Value::array();
  for (const std::string &name : input.dataset.classes()) classes.push_back(json::escape_bytes(name));
  for (const auto &[index, record] : input.skipped)
    skipped.push_back({{"id", json::escape_bytes(record.id)}, {"reason", json::escape_bytes(record.reason)}});
  json::Value features = json::Value::array(), candidates = json::Value::array();
  for (std::size_t s = 0; s < input.plan.sets.size(); ++s)
    features.push_back(features_line(input.plan.sets[s], input.sinks[s]));
  for (std::size_t i = 0; i < rows.size(); ++i) candidates.push_back(candidate_line(input, rows[i], i + 1));
  const bool any = !rows.empty() && !rows.front().trial.failed();
  return {{"format", "tl-leaderboard"},
          {"version", 2},
          {"experiment", json::escape_bytes(input.experiment.origin)},
          {"dataset", json::escape_bytes(input.dataset.spec())},
          {"metric", train::name_of(input.experiment.metric)},
          {"classes", classes},
          {"inputs", input.dataset.records().size()},
          {"skipped", skipped},
          {"features", features},
          {"candidates", candidates},
          {"best", any ? json::Value(rows.front().trial.id) : json::Value(nullptr)},
          {"seconds",
           {{"extract", input.extract_seconds}, {"train", input.train_seconds}, {"total", input.seconds}}}};
}

} // namespace tl::select
