#include "select/cycle.h"

#include "cli/error.h"
#include "cli/log.h"
#include "select/feature_store.h"
#include "shard/folder.h"
#include "shard/folder_files.h"
#include "json/bytes.h"

#include <algorithm>
#include <filesystem>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

std::string features_of(const std::string &runs) { return (fs::path(runs) / "features").string(); }

std::string label_of(const std::vector<std::string> &classes, std::int64_t label) {
  return label < 0 ? "" : classes.at(static_cast<std::size_t>(label));
}

/// The records as an index that shard::compare() takes.
shard::FolderIndex index_of(const std::vector<store::RecordRow> &rows) {
  shard::FolderIndex index;
  std::map<std::string, std::int64_t> labels;
  for (const store::RecordRow &row : rows) {
    const auto [found, added] = labels.emplace(row.label, static_cast<std::int64_t>(labels.size()));
    if (added) index.meta.classes.push_back(row.label);
    index.entries.push_back({{row.record, found->second, 0, row.name}, 0, 0});
  }
  return index;
}

std::string names_of(const shard::ShardMeta &meta) {
  std::string names;
  for (const shard::ValueInfo &value : meta.values) names += (names.empty() ? "" : ", ") + value.name;
  return names;
}

store::TrialRow trial_row(const CycleInput &input, const Row &row, std::size_t rank) {
  const Candidate &candidate = input.candidates[row.candidate];
  const Trial &trial = row.trial;
  store::TrialRow line;
  line.candidate = trial.id;
  line.name = trial.name;
  line.model = input.experiment.models[candidate.spec.model].name;
  line.settings = json::compact({{"scheme", graph::to_json(candidate.spec.scheme)},
                                 {"options", train::to_json(candidate.spec.options)}});
  line.seconds = trial.seconds;
  line.cached = trial.cached;
  line.warm = trial.warm_start.has_value();
  line.failure = trial.failure;
  if (trial.failed()) return line;
  line.rank = static_cast<std::int64_t>(rank);
  line.score = trial.score;
  line.loss = trial.validation.at("loss").get<double>();
  line.accuracy = trial.validation.at("accuracy").get<double>();
  line.balanced_accuracy = trial.validation.at("balanced_accuracy").get<double>();
  for (const json::Value &share : trial.validation.at("recall"))
    line.recall.push_back(share.is_null() ? std::nullopt : std::optional<double>(share.get<double>()));
  line.training_records = trial.training_records;
  line.epochs = trial.epochs;
  line.best_epoch = trial.best_epoch;
  return line;
}

} // namespace

CycleKeeper::CycleKeeper(const std::string &runs, const data::Dataset &dataset, bool verify)
    : runs_(runs), dataset_(dataset), started_(store::utc_now()),
      catalogue_(store::Catalogue::open((fs::path(runs) / "catalogue.db").string())), verify_(verify),
      known_(dataset.records().size()), looked_(dataset.records().size()) {
  if (!catalogue_.note().empty()) notes_.push_back(catalogue_.note());
  if (catalogue_.fresh()) rebuild();
  if (verify) catalogue_.distrust();
  before_ = catalogue_.records();
  std::unordered_map<std::string_view, const store::RecordRow *> by_name;
  for (const store::RecordRow &row : before_) by_name.emplace(row.name, &row);
  for (std::size_t i = 0; i < known_.size() && !verify; ++i) {
    const auto found = by_name.find(dataset.records()[i].id);
    if (found != by_name.end()) known_[i] = {found->second->record, found->second->state, false};
  }
}

/// From the folders: what features there are, and from the newest of them the records.
void CycleKeeper::rebuild() {
  std::vector<store::FeatureRow> rows;
  std::optional<shard::FolderIndex> newest;
  fs::file_time_type time = fs::file_time_type::min();
  std::error_code failed, ignored;
  for (fs::directory_iterator folders(features_of(runs_), failed), end; !failed && folders != end;
       folders.increment(failed)) {
    const std::string folder = folders->path().string();
    try {
      std::optional<shard::FolderIndex> index = shard::read_index(folder);
      if (!index) continue;
      rows.push_back({folders->path().filename().string(), names_of(index->meta),
                      static_cast<std::int64_t>(index->entries.size()), bytes_below(folder), std::nullopt,
                      store::utc_now(), 0});
      const auto written = fs::last_write_time(folders->path() / shard::kIndexName, ignored);
      if (newest && written <= time) continue;
      newest = std::move(index);
      time = written;
    } catch (const FormatError &) { // extracting into it says what is wrong with it
    }
  }
  if (rows.empty()) return;
  std::vector<store::RecordRow> records;
  for (const shard::IndexEntry &entry : newest->entries)
    records.push_back({entry.member.id, entry.member.record,
                       label_of(newest->meta.classes, entry.member.label), std::nullopt});
  catalogue_.set_features(rows);
  catalogue_.set_records(records);
  if (catalogue_.note().empty())
    notes_.push_back(runs_ +
                     ": has no catalogue.db; it is made again from the features, without earlier cycles");
}

std::optional<Digest> CycleKeeper::find(std::uint32_t index) {
  const std::int64_t now = now_ns();
  std::optional<FileState> state = dataset_.state(index);
  if (state && !settled(*state, now)) state.reset();
  const std::lock_guard<std::mutex> guard(mutex_);
  looked_[index] = state;
  Known &known = known_[index];
  if (!state || !known.state || *known.state != *state) return std::nullopt;
  known.hashed = true;
  return known.hash;
}

void CycleKeeper::store(std::uint32_t index, const Digest &hash) {
  const std::optional<FileState> now = dataset_.state(index);
  const std::lock_guard<std::mutex> guard(mutex_);
  known_[index] = {hash, looked_[index] == now ? now : std::nullopt, true};
}

std::function<bool(const std::string &, std::int64_t)> CycleKeeper::trusted() {
  return [this](const std::string &path, std::int64_t number) {
    const std::string key = fs::path(path).parent_path().filename().string();
    const auto [states, added] = shards_.try_emplace(key);
    if (added && !verify_) states->second = catalogue_.shards(key);
    const auto found = states->second.find(number);
    return found != states->second.end() && file_state(path) == found->second;
  };
}

void CycleKeeper::measured(const ReusePlan &plan, const Pass &pass, const extract::ExtractReport &report) {
  if (report.computed == 0) return;
  for (const std::size_t s : pass.sets) {
    const FeatureSet &set = plan.sets[s];
    const double share = pass.flops > 0 ? std::min(1.0, set.flops / pass.flops) : 1;
    seconds_per_record_[set.key.hex()] = share * report.seconds / static_cast<double>(report.computed);
  }
}

std::vector<store::RecordRow>
CycleKeeper::records_now(const std::map<std::uint32_t, data::RecordNote> &skipped) const {
  std::vector<store::RecordRow> rows;
  for (std::uint32_t i = 0; i < known_.size(); ++i) {
    if (skipped.count(i) > 0 || !known_[i].hashed) continue;
    const data::Record &record = dataset_.records()[i];
    rows.push_back({record.id, known_[i].hash, label_of(dataset_.classes(), record.label), known_[i].state});
  }
  return rows;
}

void CycleKeeper::add_features(store::Outcome &outcome, const ReusePlan &plan) const {
  for (const FeatureSet &set : plan.sets) {
    const std::string key = set.key.hex(), folder = (fs::path(features_of(runs_)) / key).string();
    store::FeatureRow row;
    row.key = key;
    row.values = names_of(set.meta);
    row.records = static_cast<std::int64_t>(outcome.records.size());
    row.bytes = bytes_below(folder);
    const auto measured = seconds_per_record_.find(key);
    if (measured != seconds_per_record_.end()) row.seconds_per_record = measured->second;
    row.last_used = outcome.cycle.last_run;
    outcome.features.push_back(std::move(row));
    store::ShardStates &states = outcome.shards[key];
    for (const auto &[number, path] : shard::list_shards(folder))
      if (const std::optional<FileState> state = file_state(path)) states[number] = *state;
  }
}

store::Cycle CycleKeeper::finish(const CycleInput &input) {
  store::Outcome outcome;
  outcome.records = records_now(input.skipped);
  store::Cycle &cycle = outcome.cycle;
  cycle.started = started_;
  cycle.last_run = store::utc_now();
  cycle.experiment = input.experiment.origin;
  cycle.dataset = dataset_.spec();
  cycle.metric = std::string(train::name_of(input.experiment.metric));
  if (!input.rows.empty()) cycle.data = input.rows.front().trial.data;
  cycle.classes = dataset_.classes();
  cycle.records = static_cast<std::int64_t>(outcome.records.size());
  cycle.skipped = static_cast<std::int64_t>(input.skipped.size());
  cycle.changes = shard::compare(index_of(before_), index_of(outcome.records));
  cycle.extract_seconds = input.extract_seconds;
  cycle.train_seconds = input.train_seconds;
  cycle.seconds = input.seconds;
  cycle.warm_start = input.warm_start;
  cycle.bytes = bytes_below(features_of(runs_));
  for (std::size_t i = 0; i < input.rows.size(); ++i)
    outcome.trials.push_back(trial_row(input, input.rows[i], i + 1));
  add_features(outcome, input.plan);
  cycle.number = catalogue_.add(outcome);
  return cycle;
}

void CycleKeeper::distrust() noexcept {
  try {
    catalogue_.distrust();
  } catch (const std::exception &) { // there is an error to report already
  }
}

json::Value to_json(const store::Cycle &cycle) {
  return {{"number", cycle.number}, {"records", cycle.records}, {"changes", shard::to_json(cycle.changes)}};
}

std::string summary(const store::Cycle &cycle) {
  const shard::Changes &changes = cycle.changes;
  std::string text =
      "cycle " + std::to_string(cycle.number) + ": " + std::to_string(cycle.records) + " records: ";
  bool first = true;
  const auto add = [&](std::int64_t count, const char *what) {
    if (count == 0) return;
    text += (first ? "" : ", ") + std::to_string(count) + " " + what;
    first = false;
  };
  add(changes.added, "added");
  add(changes.changed, "changed");
  add(changes.relabelled, "relabelled");
  add(changes.renamed, "renamed");
  add(changes.removed, "removed");
  add(changes.unchanged, "unchanged");
  return text;
}

} // namespace tl::select
