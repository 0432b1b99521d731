#include "select/feature_store.h"

#include "cli/error.h"
#include "cli/log.h"
#include "shard/folder_files.h"

#include <algorithm>
#include <filesystem>
#include <set>

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

/// One program for all values of the pass.
extract::Prefix prefix_of(const ReusePlan &plan, const Pass &pass, const SharedGraphs &graphs) {
  graph::Cut cut;
  for (const std::size_t s : pass.sets) cut.values.push_back(plan.sets[s].value);
  const SharedGraph &graph = graphs.graphs[plan.sets[pass.sets.front()].graph];
  return extract::Prefix(graph.merged->model(), cut, graph.preprocess);
}

/// When the last file in a folder was written.
std::filesystem::file_time_type last_used(const std::filesystem::path &folder) {
  auto used = std::filesystem::file_time_type::min();
  std::error_code failed, ignored;
  for (std::filesystem::directory_iterator files(folder, failed), end; !failed && files != end;
       files.increment(failed)) {
    const auto time = files->last_write_time(ignored);
    if (!ignored) used = std::max(used, time);
  }
  return used;
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

bool is_set_folder(const std::string &name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::int64_t bytes_below(const std::string &folder) {
  std::int64_t bytes = 0;
  std::error_code failed, ignored;
  for (std::filesystem::recursive_directory_iterator files(folder, failed), end; !failed && files != end;
       files.increment(failed)) {
    if (!files->is_regular_file(ignored)) continue;
    const auto size = files->file_size(ignored);
    if (!ignored) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::optional<Stored> stored_state(const std::string &store, const FeatureSet &set) {
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
    return Stored{hasher.digest(), static_cast<std::int64_t>(records.size())};
  } catch (const FormatError &) { // extracting into it says what is wrong with it
    return std::nullopt;
  }
}

std::vector<std::string> make_room(const std::string &store, const ReusePlan &plan) {
  std::vector<std::string> removed;
  if (!plan.disk_budget) return removed;
  std::set<std::string> used;
  double bytes = plan.disk;
  for (const FeatureSet &set : plan.sets) used.insert(set.key.hex());
  struct Folder {
    std::filesystem::path path;
    double bytes;
    std::filesystem::file_time_type used;
  };
  std::vector<Folder> others;
  std::error_code failed;
  for (std::filesystem::directory_iterator folders(store, failed), end; !failed && folders != end;
       folders.increment(failed)) {
    const std::string name = folders->path().filename().string();
    if (used.count(name) > 0 || !is_set_folder(name)) continue;
    const std::filesystem::path &path = folders->path();
    others.push_back({path, static_cast<double>(bytes_below(path.string())), last_used(path)});
    bytes += others.back().bytes;
  }
  std::sort(others.begin(), others.end(), [](const Folder &a, const Folder &b) { return a.used < b.used; });
  for (const Folder &folder : others) {
    if (bytes <= static_cast<double>(*plan.disk_budget)) break;
    std::filesystem::remove_all(folder.path, failed);
    if (failed) throw SystemError("remove " + folder.path.string(), failed.value());
    bytes -= folder.bytes;
    removed.push_back(folder.path.string() + ": removed for the disk budget, " +
                      cli::human_bytes(folder.bytes));
  }
  return removed;
}

std::vector<std::string> trim(const std::string &store, const ReusePlan &plan) {
  std::vector<std::string> trimmed;
  if (!plan.disk_budget) return trimmed;
  std::int64_t bytes = 0;
  for (const FeatureSet &set : plan.sets) bytes += bytes_below(set_folder(store, set));
  if (bytes <= *plan.disk_budget) return trimmed;
  for (const FeatureSet &set : plan.sets) {
    const shard::PruneReport report = shard::prune(set_folder(store, set));
    if (report.rows == 0) continue;
    trimmed.push_back(set_folder(store, set) + ": dropped " + std::to_string(report.rows) +
                      " rows of records that are gone, " +
                      cli::human_bytes(static_cast<double>(report.bytes)));
  }
  return trimmed;
}

std::vector<std::string> folders_of_records(const ReusePlan &plan, const Group &group,
                                            const std::string &store,
                                            const std::function<bool(std::size_t)> &complete) {
  std::vector<std::string> folders;
  for (const std::size_t s : group.sets) folders.push_back(set_folder(store, plan.sets[s]));
  for (std::size_t s = 0; folders.empty() && s < plan.sets.size(); ++s)
    if (complete(s)) folders.push_back(set_folder(store, plan.sets[s]));
  return folders;
}

extract::ExtractOptions extract_options(std::uint64_t seed, std::size_t threads, bool keep_going,
                                        const std::function<void(std::size_t)> &progress) {
  extract::ExtractOptions options;
  options.threads = threads;
  options.keep_going = keep_going;
  options.shuffle = true;
  options.seed = seed;
  options.progress = progress;
  return options;
}

PassReport run_pass(const ReusePlan &plan, const Pass &pass, const SharedGraphs &graphs,
                    const data::Dataset &dataset, const std::string &store,
                    const extract::ExtractOptions &options, const shard::SinkOptions &sink_options) {
  const extract::Prefix prefix = prefix_of(plan, pass, graphs);
  std::vector<FanOutSink::Target> targets;
  for (std::size_t i = 0; i < pass.sets.size(); ++i) {
    const FeatureSet &set = plan.sets[pass.sets[i]];
    const std::string folder = set_folder(store, set);
    shard::ShardMeta meta = set.meta;
    meta.classes = dataset.classes();
    adopt_names(folder, meta);
    shard::SinkOptions sink = sink_options;
    if (options.part) sink.part = data::part_of(dataset, *options.part, options.shuffle, options.seed);
    targets.push_back({std::make_unique<shard::FolderSink>(folder, std::move(meta), sink), {i}});
  }
  FanOutSink sink(std::move(targets));
  PassReport report;
  report.extraction = extract::extract(dataset, prefix, sink, options);
  report.sets = sink.reports();
  report.notes = sink.notes();
  return report;
}

} // namespace tl::select
