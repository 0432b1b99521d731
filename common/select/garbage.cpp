#include "select/garbage.h"

#include "cli/error.h"
#include "cli/log.h"
#include "select/feature_store.h"
#include "shard/folder.h"
#include "shard/folder_files.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

constexpr double kDay = 24 * 60 * 60;

std::int64_t seconds_of(const std::string &utc) {
  std::tm parts = {};
  if (std::sscanf(utc.c_str(), "%d-%d-%d %d:%d:%d", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec) != 6)
    return 0;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return timegm(&parts);
}

struct Features {
  store::FeatureRow row;
  fs::path folder;
  std::int64_t bytes = 0;
  bool current = false; // the last cycle used them
};

/// Those on disk; what the catalogue does not know of was left by a run that did not finish.
std::vector<Features> features_of(const fs::path &runs, const store::Catalogue &catalogue) {
  std::map<std::string, store::FeatureRow> rows;
  for (store::FeatureRow &row : catalogue.features()) rows[row.key] = std::move(row);
  const std::vector<store::Cycle> cycles = catalogue.cycles();
  std::vector<Features> found;
  std::error_code failed;
  for (fs::directory_iterator folders(runs / "features", failed), end; !failed && folders != end;
       folders.increment(failed)) {
    const std::string key = folders->path().filename().string();
    if (!is_set_folder(key)) continue;
    Features features;
    features.folder = folders->path();
    features.bytes = bytes_below(folders->path().string());
    const auto row = rows.find(key);
    if (row != rows.end()) features.row = row->second;
    features.row.key = key;
    features.row.bytes = features.bytes;
    features.current = row != rows.end() && !cycles.empty() && row->second.cycle == cycles.back().number;
    found.push_back(std::move(features));
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    throw SystemError("read folder " + (runs / "features").string(), failed.value());
  return found;
}

std::string reason(const Features &features) {
  const store::FeatureRow &row = features.row;
  if (row.last_used.empty()) return "of a run that did not finish";
  std::string text = cli::printable(row.values) + ", " + std::to_string(row.records) + " records, ";
  if (row.seconds_per_record)
    text +=
        cli::human_seconds(*row.seconds_per_record * static_cast<double>(row.records)) + " to recompute, ";
  return text + "last used " + row.last_used + (features.current ? " by the last cycle" : "");
}

/// The index first: it must never name what is not there.
void remove_features(const Features &features, store::Catalogue &catalogue) {
  { const shard::FolderLock lock(features.folder.string()); } // nobody extracts into it by tl-extract
  catalogue.forget(features.row.key);
  shard::remove_file((features.folder / shard::kIndexName).string());
  std::error_code failed;
  fs::remove_all(features.folder, failed);
  if (failed) throw SystemError("remove " + features.folder.string(), failed.value());
}

void remove_weights(const fs::path &runs, const store::Catalogue &catalogue, bool dry_run,
                    GarbageReport &report) {
  const std::vector<store::Cycle> cycles = catalogue.cycles();
  if (cycles.empty()) return;
  std::set<std::string> named;
  for (const store::TrialRow &trial : catalogue.trials(cycles.back().number)) named.insert(trial.candidate);
  std::error_code failed, ignored;
  for (fs::directory_iterator trials(runs / "trials", failed), end; !failed && trials != end;
       trials.increment(failed)) {
    const std::string id = trials->path().filename().string();
    if (named.count(id) > 0) continue;
    for (const char *name : {"weights.safetensors", "state.safetensors"}) {
      const fs::path file = trials->path() / name;
      if (!fs::is_regular_file(file, ignored)) continue;
      report.removed.push_back({"trials/" + id + "/" + name,
                                "of a candidate that the last cycle does not name",
                                static_cast<std::int64_t>(fs::file_size(file, ignored))});
      if (!dry_run) shard::remove_file(file.string());
    }
  }
}

} // namespace

double worth(const store::FeatureRow &features, std::int64_t now_seconds) {
  const double seconds = features.seconds_per_record.value_or(0) * static_cast<double>(features.records);
  const double idle = std::max(0.0, static_cast<double>(now_seconds - seconds_of(features.last_used)));
  return seconds / std::max(1.0, static_cast<double>(features.bytes)) / (1 + idle / kDay);
}

GarbageReport collect_garbage(const std::string &runs, const GarbageOptions &options) {
  const std::string path = (fs::path(runs) / "catalogue.db").string();
  std::error_code failed;
  if (!fs::is_directory(runs, failed)) throw Error(runs + ": is not a folder of tl-select");
  if (!fs::exists(path, failed))
    throw Error(path +
                ": there is no catalogue to say what features are worth; a run of tl-select makes one");
  const shard::FolderLock lock(runs); // left as it was found: an unfinished run stays one
  store::Catalogue catalogue = store::Catalogue::open(path);
  if (!catalogue.note().empty()) throw FormatError(catalogue.note() + "; nothing was removed");
  std::vector<Features> features = features_of(runs, catalogue);
  const std::int64_t now = std::time(nullptr);
  std::stable_sort(features.begin(), features.end(), [&](const Features &a, const Features &b) {
    if (a.current != b.current) return b.current;
    return worth(a.row, now) < worth(b.row, now);
  });
  GarbageReport report;
  for (const Features &each : features) report.before += each.bytes;
  report.after = report.before;
  for (const Features &each : features) {
    if (report.after <= options.budget) break;
    check_interrupt();
    if (!options.dry_run) remove_features(each, catalogue);
    report.after -= each.bytes;
    report.removed.push_back({"features/" + each.row.key, reason(each), each.bytes});
  }
  if (options.trials) remove_weights(runs, catalogue, options.dry_run, report);
  return report;
}

} // namespace tl::select
