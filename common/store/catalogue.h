// RUNS/catalogue.db: what a folder of tl-select holds and what its cycles gave, for the next run, for people
// with sqlite3, and for history and gc. man/tl-formats.5 describes the tables.
//
// It only describes: features, trials and models are whole without it. Everything that a run has to say is
// written in one transaction after the files that it tells of, so it never names a shard that is not whole.
// The journal is a rollback journal: unlike a write-ahead log it works on network file systems, and leaves
// one file that can be copied or deleted. Whoever writes holds the lock of the runs folder.
#pragma once

#include "runtime/file_state.h"
#include "runtime/hash.h"
#include "shard/changes.h"
#include "store/database.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tl::store {

/// A record of the data set as the last cycle saw it.
struct RecordRow {
  std::string name; // any bytes, as are all names here
  Digest record;    // of its content
  std::string label;
  std::optional<FileState> state; // of the file when it was hashed; none: read it again
};

/// A run that was finished; a run that repeats it without any change is counted in `runs`.
struct Cycle {
  std::int64_t number = 0; // from 1; given by add_cycle()
  std::string started;     // UTC, "2026-12-02 15:07:45"
  std::string last_run;
  std::int64_t runs = 1;
  std::string experiment, dataset, metric;
  Digest data; // what the candidates were trained on
  std::vector<std::string> classes;
  std::int64_t records = 0, skipped = 0;
  shard::Changes changes; // since the cycle before
  double extract_seconds = 0, train_seconds = 0, seconds = 0;
  std::int64_t bytes = 0; // of all features, afterwards
  bool warm_start = false;
};

/// What a candidate gave in a cycle.
struct TrialRow {
  std::string candidate, name; // id; for people
  std::string model, settings; // JSON of scheme and options
  std::optional<std::int64_t> rank;
  std::optional<double> score, loss, accuracy, balanced_accuracy;
  std::vector<std::optional<double>> recall; // of each class of the cycle
  std::int64_t training_records = 0, epochs = 0, best_epoch = 0;
  double seconds = 0;
  bool cached = false;
  bool warm = false;
  std::string failure;
};

/// Features on disk: RUNS/features/KEY.
struct FeatureRow {
  std::string key;
  std::string values; // names, for people
  std::int64_t records = 0;
  std::int64_t bytes = 0;
  /// To compute a record again; nothing when it was never measured.
  std::optional<double> seconds_per_record;
  std::string last_used; // UTC
  std::int64_t cycle = 0;
};

using ShardStates = std::map<std::int64_t, FileState>; // by number

/// What a finished run leaves. All of it is written, or nothing.
struct Outcome {
  Cycle cycle;
  std::vector<TrialRow> trials;
  std::vector<RecordRow> records;
  std::vector<FeatureRow> features;          // those that were used
  std::map<std::string, ShardStates> shards; // of these, by key
};

class Catalogue {
public:
  /// For the one process that works in the folder. Makes it where there is none. A damaged one is set aside
  /// under another name and a new one made. Throws Error for one that newer tools wrote, or that is not ours.
  static Catalogue open(const std::string &path);
  /// Only to read, at any time. Throws FormatError if it is damaged, Error if there is none.
  static Catalogue read(const std::string &path);

  /// It was made just now: nothing in it.
  bool fresh() const { return fresh_; }
  /// Why, if a damaged one was set aside.
  const std::string &note() const { return note_; }

  std::vector<RecordRow> records() const;
  std::vector<Cycle> cycles() const;
  std::vector<TrialRow> trials(std::int64_t cycle) const;
  std::vector<FeatureRow> features() const;
  ShardStates shards(const std::string &key) const;

  /// Returns the cycle's number: that of the last one when this run only repeated it.
  std::int64_t add(const Outcome &outcome);
  void set_records(const std::vector<RecordRow> &records);
  void set_features(const std::vector<FeatureRow> &features);
  /// Before files of these features go away.
  void forget(const std::string &key);
  /// The next run verifies every shard.
  void distrust();

private:
  Catalogue(Database database, bool fresh, std::string note)
      : database_(std::move(database)), fresh_(fresh), note_(std::move(note)) {}

  void write_records(const std::vector<RecordRow> &records);
  void write_cycle(const Cycle &cycle);
  void write_trials(std::int64_t cycle, const std::vector<TrialRow> &trials);
  void write_features(const std::vector<FeatureRow> &features);
  void write_shards(const std::map<std::string, ShardStates> &shards);
  bool repeats(const Cycle &last, const Outcome &outcome) const;

  Database database_;
  bool fresh_;
  std::string note_;
};

/// Now, as it stands in the tables.
std::string utc_now();

} // namespace tl::store
