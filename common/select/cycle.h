// What a run knows of the runs before it, and tells to the next one, by RUNS/catalogue.db: which files are
// still the ones that were read, which shards are still the ones that were verified, how the data set has
// changed since the last cycle, and what every cycle gave.
#pragma once

#include "data/loader.h"
#include "extract/report.h"
#include "select/leaderboard.h"
#include "select/reuse_plan.h"
#include "shard/sink.h"
#include "store/catalogue.h"

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace tl::select {

/// A finished run, for its account.
struct CycleInput {
  const Experiment &experiment;
  const std::vector<Candidate> &candidates;
  const ReusePlan &plan;
  const std::vector<Row> &rows;
  const std::map<std::uint32_t, data::RecordNote> &skipped; // by index
  double extract_seconds = 0, train_seconds = 0, seconds = 0;
  bool warm_start = false;
};

class CycleKeeper final : public data::HashCache {
public:
  /// Opens the catalogue of a runs folder that this process has locked. Without one, it is made from the
  /// folders: lost are earlier cycles, what features cost, and that files and shards need not be read again.
  /// `verify`: no file and no shard is taken for the one that it was.
  CycleKeeper(const std::string &runs, const data::Dataset &dataset, bool verify);

  /// What the user should know, one line each.
  const std::vector<std::string> &notes() const { return notes_; }

  std::optional<Digest> find(std::uint32_t index) override;
  void store(std::uint32_t index, const Digest &hash) override;

  /// For SinkOptions::trusted of a folder below RUNS/features. Must not outlive this.
  std::function<bool(const std::string &path, std::int64_t number)> trusted();
  /// A pass over the data took so long.
  void measured(const ReusePlan &plan, const Pass &pass, const extract::ExtractReport &report);

  /// Writes the cycle; returns it with its number. Every record must have been looked at by then.
  store::Cycle finish(const CycleInput &input);
  /// Something on the disk was damaged: the next run looks at every byte.
  void distrust() noexcept;

private:
  void rebuild();
  std::vector<store::RecordRow> records_now(const std::map<std::uint32_t, data::RecordNote> &skipped) const;
  void add_features(store::Outcome &outcome, const ReusePlan &plan) const;

  struct Known {
    Digest hash;
    std::optional<FileState> state;
    bool hashed = false;
  };

  std::string runs_;
  const data::Dataset &dataset_;
  std::string started_;
  store::Catalogue catalogue_;
  std::vector<std::string> notes_;
  bool verify_;
  std::vector<store::RecordRow> before_;
  std::mutex mutex_;                             // of the next two
  std::vector<Known> known_;                     // by index
  std::vector<std::optional<FileState>> looked_; // by index: the file before it is read, if it was settled
  std::map<std::string, store::ShardStates> shards_;
  std::map<std::string, double> seconds_per_record_; // by key of the features
};

/// As the leaderboard has it.
json::Value to_json(const store::Cycle &cycle);
/// "cycle 3: 523 records: 20 added, 1 relabelled, 502 unchanged"
std::string summary(const store::Cycle &cycle);

} // namespace tl::select
