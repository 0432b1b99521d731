// What the catalogue knows of earlier cycles, as curves, as a document and as a table.
#include "cli/log.h"
#include "select/curve.h"
#include "select/html.h"
#include "json/bytes.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace tl::select {

namespace {

template <class T> json::Value value_or_null(const std::optional<T> &value) {
  return value ? json::Value(*value) : json::Value(nullptr);
}

json::Value trial_line(const store::TrialRow &trial) {
  json::Value recall = json::Value::array();
  for (const std::optional<double> &share : trial.recall) recall.push_back(value_or_null(share));
  json::Value line = {{"candidate", trial.candidate},
                      {"name", json::escape_bytes(trial.name)},
                      {"rank", value_or_null(trial.rank)},
                      {"score", value_or_null(trial.score)},
                      {"loss", value_or_null(trial.loss)},
                      {"accuracy", value_or_null(trial.accuracy)},
                      {"balanced_accuracy", value_or_null(trial.balanced_accuracy)},
                      {"recall", recall},
                      {"training_records", trial.training_records},
                      {"epochs", trial.epochs},
                      {"best_epoch", trial.best_epoch},
                      {"seconds", trial.seconds},
                      {"cached", trial.cached},
                      {"warm_start", trial.warm}};
  if (!trial.failure.empty()) line["failure"] = json::escape_bytes(trial.failure);
  return line;
}

json::Value cycle_line(const store::Cycle &cycle, const std::vector<store::TrialRow> &trials) {
  json::Value classes = json::Value::array(), lines = json::Value::array();
  for (const std::string &name : cycle.classes) classes.push_back(json::escape_bytes(name));
  for (const store::TrialRow &trial : trials) lines.push_back(trial_line(trial));
  return {{"cycle", cycle.number},
          {"started", cycle.started},
          {"last_run", cycle.last_run},
          {"runs", cycle.runs},
          {"experiment", json::escape_bytes(cycle.experiment)},
          {"dataset", json::escape_bytes(cycle.dataset)},
          {"metric", cycle.metric},
          {"data", cycle.data.hex()},
          {"classes", classes},
          {"records", cycle.records},
          {"skipped", cycle.skipped},
          {"changes", shard::to_json(cycle.changes)},
          {"seconds",
           {{"extract", cycle.extract_seconds}, {"train", cycle.train_seconds}, {"total", cycle.seconds}}},
          {"bytes", cycle.bytes},
          {"trials", lines}};
}

json::Value curve_line(const CandidateCurve &curve) {
  json::Value points = json::Value::array();
  for (const CurvePoint &point : curve.points)
    points.push_back({{"cycle", point.cycle},
                      {"records", point.records},
                      {"score", point.score},
                      {"candidate", point.candidate}});
  json::Value line = {{"name", json::escape_bytes(curve.name)}, {"points", points}};
  if (!curve.id.empty()) line["candidate"] = curve.id;
  return line;
}

} // namespace

History read_history(const store::Catalogue &catalogue) {
  History history;
  history.cycles = catalogue.cycles();
  for (const store::Cycle &cycle : history.cycles) history.trials.push_back(catalogue.trials(cycle.number));
  return history;
}

std::vector<CandidateCurve> labelling_curves(const History &history) {
  CandidateCurve best{"", "the best of each cycle", {}};
  std::map<std::string, CandidateCurve> by_candidate;
  for (std::size_t i = 0; i < history.cycles.size(); ++i) {
    const store::Cycle &cycle = history.cycles[i];
    if (cycle.metric != history.cycles.back().metric) continue; // other scores
    for (const store::TrialRow &trial : history.trials[i]) {
      if (!trial.score) continue;
      const CurvePoint point{cycle.number, cycle.records, *trial.score, trial.candidate};
      if (trial.rank == 1) best.points.push_back(point);
      CandidateCurve &curve = by_candidate[trial.candidate];
      curve.id = trial.candidate;
      curve.name = trial.name;
      curve.points.push_back(point);
    }
  }
  std::vector<CandidateCurve> curves{std::move(best)};
  for (auto &[id, curve] : by_candidate) curves.push_back(std::move(curve));
  std::stable_sort(curves.begin() + 1, curves.end(), [](const CandidateCurve &a, const CandidateCurve &b) {
    const CurvePoint &first = a.points.back(), &second = b.points.back();
    return first.cycle != second.cycle ? first.cycle > second.cycle : first.score > second.score;
  });
  return curves;
}

json::Value to_json(const History &history) {
  json::Value cycles = json::Value::array(), curves = json::Value::array();
  for (std::size_t i = 0; i < history.cycles.size(); ++i)
    cycles.push_back(cycle_line(history.cycles[i], history.trials[i]));
  for (const CandidateCurve &curve : labelling_curves(history)) curves.push_back(curve_line(curve));
  return {{"format", "tl-history"}, {"version", 1}, {"cycles", cycles}, {"curves", curves}};
}

std::string table(const History &history) {
  std::string text =
      "cycle  started (UTC)        runs  records  added  changed  relabelled  renamed  removed    time"
      "      disk     best  candidate\n";
  for (std::size_t i = 0; i < history.cycles.size(); ++i) {
    const store::Cycle &cycle = history.cycles[i];
    const shard::Changes &changes = cycle.changes;
    const std::vector<store::TrialRow> &trials = history.trials[i];
    const bool any = !trials.empty() && trials.front().score;
    char line[192];
    std::snprintf(line, sizeof line,
                  "%5lld  %s  %4lld  %7lld  %5lld  %7lld  %10lld  %7lld  %7lld  %6s  %8s  %7s  ",
                  static_cast<long long>(cycle.number), cycle.started.substr(0, 19).c_str(),
                  static_cast<long long>(cycle.runs), static_cast<long long>(cycle.records),
                  static_cast<long long>(changes.added), static_cast<long long>(changes.changed),
                  static_cast<long long>(changes.relabelled), static_cast<long long>(changes.renamed),
                  static_cast<long long>(changes.removed), cli::human_seconds(cycle.seconds).c_str(),
                  cli::human_bytes(static_cast<double>(cycle.bytes)).c_str(),
                  any ? fixed(*trials.front().score, 4).c_str() : "-");
    text += line + (any ? cli::printable(trials.front().name) : std::string("every candidate failed")) + "\n";
  }
  return text;
}

} // namespace tl::select
