#include "select/feature_store.h"

#include "cli/error.h"
#include "select/multi_model.h"
#include "shard/folder_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace tl::select {

namespace {

/// The rows [begin, end) with only these columns of values.
shard::Shard columns_of(const shard::Shard &rows, const std::vector<std::size_t> &columns) {
  shard::Shard part = rows;
  part.values.clear();
  for (const std::size_t column : columns) part.values.push_back(rows.values.at(column));
  return part;
}

/// A folder keeps the names that its values got first, whoever reads them now: names are for people.
void adopt_names(const std::string &folder, shard::ShardMeta &meta) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return;
  std::optional<shard::ShardMeta> stored;
  try {
    if (const auto index = shard::read_index(folder)) stored = index->meta;
  } catch (const FormatError &) { // the sink says what is wrong with it
  }
  for (const auto &[number, path] : shard::list_shards(folder)) {
    if (stored) break;
    try {
      stored = shard::read_shard(path).meta;
    } catch (const FormatError &) {
    }
  }
  if (!stored || stored->values.size() != meta.values.size()) return;
  for (std::size_t i = 0; i < meta.values.size(); ++i)
    if (stored->values[i].hash != meta.values[i].hash) return;
  for (std::size_t i = 0; i < meta.values.size(); ++i) meta.values[i].name = stored->values[i].name;
}

struct PassProgram {
  extract::Prefix prefix;
  std::vector<std::vector<std::size_t>> columns; // of each set
};

/// One program for all values of the pass.
PassProgram program_of(const ReusePlan &plan, const Pass &pass, const std::vector<Candidate> &candidates) {
  const Prepared &first = *candidates[plan.sets[pass.sets.front()].candidates.front()].prepared;
  MultiModel merged(first.model);
  graph::Cut cut;
  std::map<graph::ValueId, std::size_t> column_of;
  std::vector<std::vector<std::size_t>> columns;
  for (const std::size_t s : pass.sets) {
    const Prepared &prepared = *candidates[plan.sets[s].candidates.front()].prepared;
    merged.add(prepared.model, prepared.inputs);
    columns.emplace_back();
    for (std::size_t i = 0; i < prepared.inputs.size(); ++i) {
      const graph::ValueId id = merged.find(prepared.input(i).hash);
      const auto [found, added] = column_of.emplace(id, cut.values.size());
      if (added) cut.values.push_back(id);
      columns.back().push_back(found->second);
    }
  }
  return {extract::Prefix(merged.model(), cut, first.preprocess), std::move(columns)};
}

} // namespace

FanOutSink::FanOutSink(std::vector<Target> targets) : targets_(std::move(targets)) {
  for (const Target &target : targets_)
    notes_.insert(notes_.end(), target.sink->notes().begin(), target.sink->notes().end());
}

bool FanOutSink::has(const Digest &record) const {
  return std::all_of(targets_.begin(), targets_.end(), [&](const Target &t) { return t.sink->has(record); });
}

void FanOutSink::keep(const shard::Member &member) {
  for (const Target &target : targets_) target.sink->keep(member);
}

void FanOutSink::append(const shard::Shard &rows) {
  for (const Target &target : targets_) target.sink->append(columns_of(rows, target.columns));
}

shard::SinkReport FanOutSink::finish(std::int64_t skipped) {
  for (const Target &target : targets_) reports_.push_back(target.sink->finish(skipped));
  shard::SinkReport sum = reports_.front();
  for (std::size_t i = 1; i < reports_.size(); ++i) {
    sum.written += reports_[i].written;
    sum.shards += reports_[i].shards;
    sum.bytes += reports_[i].bytes;
  }
  return sum;
}

void FanOutSink::fail(const std::string &reason) noexcept {
  for (const Target &target : targets_) target.sink->fail(reason);
}

std::string set_folder(const std::string &store, const FeatureSet &set) {
  return (std::filesystem::path(store) / set.key.hex()).string();
}

std::optional<Digest> stored_state(const std::string &store, const FeatureSet &set) {
  const std::string folder = set_folder(store, set);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return std::nullopt;
  try {
    const std::optional<shard::FolderIndex> index = shard::read_index(folder);
    if (!index) return std::nullopt;
    std::vector<Digest> records;
    for (const shard::IndexEntry &entry : index->entries) records.push_back(entry.member.record);
    std::sort(records.begin(), records.end());
    Hasher hasher;
    for (const Digest &record : records) hasher.add(record);
    return hasher.digest();
  } catch (const FormatError &) { // extracting into it says what is wrong with it
    return std::nullopt;
  }
}

PassReport run_pass(const ReusePlan &plan, const Pass &pass, const std::vector<Candidate> &candidates,
                    const data::Dataset &dataset, const std::string &store,
                    const extract::ExtractOptions &options) {
  const PassProgram program = program_of(plan, pass, candidates);
  std::vector<FanOutSink::Target> targets;
  for (std::size_t i = 0; i < pass.sets.size(); ++i) {
    const FeatureSet &set = plan.sets[pass.sets[i]];
    const std::string folder = set_folder(store, set);
    shard::ShardMeta meta = set.meta;
    meta.classes = dataset.classes();
    adopt_names(folder, meta);
    targets.push_back({std::make_unique<shard::FolderSink>(folder, std::move(meta)), program.columns[i]});
  }
  FanOutSink sink(std::move(targets));
  PassReport report;
  report.extraction = extract::extract(dataset, program.prefix, sink, options);
  report.sets = sink.reports();
  report.notes = sink.notes();
  return report;
}

} // namespace tl::select
