#include "store/catalogue.h"

#include "json/bytes.h"
#include "json/document.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace tl::store {

namespace {

std::optional<std::int64_t> field(const std::optional<FileState> &state, std::int64_t FileState::*member) {
  return state ? std::optional<std::int64_t>((*state).*member) : std::nullopt;
}

std::string text_of(const std::vector<std::string> &names) {
  json::Value list = json::Value::array();
  for (const std::string &name : names) list.push_back(json::escape_bytes(name));
  return json::compact(list);
}

std::optional<std::string> text_of(const std::vector<std::optional<double>> &shares) {
  if (shares.empty()) return std::nullopt;
  json::Value list = json::Value::array();
  for (const std::optional<double> &share : shares)
    list.push_back(share ? json::Value(*share) : json::Value(nullptr));
  return json::compact(list);
}

bool same(const RecordRow &a, const RecordRow &b) {
  return a.record == b.record && a.label == b.label && a.state == b.state;
}

} // namespace

void Catalogue::write_records(const std::vector<RecordRow> &records) {
  std::unordered_map<std::string, RecordRow> before;
  for (RecordRow &row : this->records()) {
    std::string name = row.name;
    before.emplace(std::move(name), std::move(row));
  }
  Statement put(database_, "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const RecordRow &row : records) {
    const auto found = before.find(row.name);
    const bool there = found != before.end() && same(found->second, row);
    if (found != before.end()) before.erase(found);
    if (there) continue;
    put.with(json::escape_bytes(row.name), row.record.hex(), json::escape_bytes(row.label),
             field(row.state, &FileState::bytes), field(row.state, &FileState::modified_ns),
             field(row.state, &FileState::changed_ns), field(row.state, &FileState::inode));
    put.run();
  }
  Statement gone(database_, "DELETE FROM records WHERE name = ?");
  for (const auto &[name, row] : before) gone.with(json::escape_bytes(name)).run();
}

void Catalogue::write_cycle(const Cycle &cycle) {
  const shard::Changes &changes = cycle.changes;
  Statement put(database_, "INSERT INTO cycles VALUES "
                           "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  put.with(cycle.number, cycle.started, cycle.last_run, cycle.runs, json::escape_bytes(cycle.experiment),
           json::escape_bytes(cycle.dataset), cycle.metric, cycle.data.hex(), text_of(cycle.classes),
           cycle.records, cycle.skipped, changes.added, changes.changed, changes.relabelled, changes.renamed,
           changes.removed, changes.unchanged, cycle.extract_seconds, cycle.train_seconds, cycle.seconds,
           cycle.bytes, std::int64_t{cycle.warm_start});
  put.run();
}

void Catalogue::write_trials(std::int64_t cycle, const std::vector<TrialRow> &trials) {
  Statement candidate(database_, "INSERT OR REPLACE INTO candidates VALUES (?, ?, ?, ?)");
  Statement put(database_,
                "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const TrialRow &trial : trials) {
    candidate.with(trial.candidate, json::escape_bytes(trial.name), json::escape_bytes(trial.model),
                   trial.settings);
    candidate.run();
    const std::optional<std::string> failure =
        trial.failure.empty() ? std::nullopt : std::optional<std::string>(json::escape_bytes(trial.failure));
    put.with(cycle, trial.candidate, trial.rank, trial.score, trial.loss, trial.accuracy,
             trial.balanced_accuracy, text_of(trial.recall), trial.training_records, trial.epochs,
             trial.best_epoch, trial.seconds, std::int64_t{trial.cached}, std::int64_t{trial.warm}, failure);
    put.run();
  }
}

void Catalogue::write_features(const std::vector<FeatureRow> &features) {
  // A cost that this run did not measure stays as an earlier one measured it.
  Statement put(database_,
                "INSERT INTO features VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "names = excluded.names, records = excluded.records, bytes = excluded.bytes, "
                "seconds_per_record = coalesce(excluded.seconds_per_record, seconds_per_record), "
                "last_used = excluded.last_used, cycle = excluded.cycle");
  for (const FeatureRow &row : features) {
    put.with(row.key, json::escape_bytes(row.values), row.records, row.bytes, row.seconds_per_record,
             row.last_used, row.cycle);
    put.run();
  }
}

void Catalogue::write_shards(const std::map<std::string, ShardStates> &shards) {
  Statement clear(database_, "DELETE FROM shards WHERE key = ?");
  Statement put(database_, "INSERT INTO shards VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto &[key, states] : shards) {
    if (this->shards(key) == states) continue;
    clear.with(key).run();
    for (const auto &[number, state] : states)
      put.with(key, number, state.bytes, state.modified_ns, state.changed_ns, state.inode).run();
  }
}

bool Catalogue::repeats(const Cycle &last, const Outcome &outcome) const {
  const Cycle &now = outcome.cycle;
  if (now.data != last.data || now.experiment != last.experiment || now.dataset != last.dataset ||
      now.records != last.records || now.changes.unchanged != now.records)
    return false;
  std::set<std::string> before, here;
  for (const TrialRow &trial : trials(last.number)) before.insert(trial.candidate);
  for (const TrialRow &trial : outcome.trials) {
    if (!trial.cached) return false;
    here.insert(trial.candidate);
  }
  return before == here;
}

std::int64_t Catalogue::add(const Outcome &outcome) {
  Cycle cycle = outcome.cycle;
  const std::vector<Cycle> before = cycles();
  cycle.number = before.empty() ? 1 : before.back().number + 1;
  const bool repeated = !before.empty() && repeats(before.back(), outcome);
  if (repeated) cycle.number = before.back().number;
  Transaction transaction(database_);
  if (repeated) {
    Statement again(database_, "UPDATE cycles SET runs = runs + 1, last_run = ?, bytes = ? WHERE cycle = ?");
    again.with(cycle.last_run, cycle.bytes, cycle.number).run();
  } else {
    write_cycle(cycle);
    write_trials(cycle.number, outcome.trials);
  }
  std::vector<FeatureRow> features = outcome.features;
  for (FeatureRow &row : features) row.cycle = cycle.number;
  write_features(features);
  write_shards(outcome.shards);
  write_records(outcome.records);
  transaction.commit();
  return cycle.number;
}

void Catalogue::set_records(const std::vector<RecordRow> &records) {
  Transaction transaction(database_);
  write_records(records);
  transaction.commit();
}

void Catalogue::set_features(const std::vector<FeatureRow> &features) {
  Transaction transaction(database_);
  write_features(features);
  transaction.commit();
}

void Catalogue::forget(const std::string &key) {
  Transaction transaction(database_);
  Statement(database_, "DELETE FROM shards WHERE key = ?").with(key).run();
  Statement(database_, "DELETE FROM features WHERE key = ?").with(key).run();
  transaction.commit();
}

void Catalogue::distrust() { database_.execute("DELETE FROM shards"); }

} // namespace tl::store
