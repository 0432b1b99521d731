#include "store/catalogue.h"

#include "json/bytes.h"
#include "json/document.h"

#include <cstdio>
#include <ctime>
#include <filesystem>

namespace tl::store {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kApplication = 0x746C7363; // "tlsc"
constexpr std::int64_t kVersion = 1;

constexpr const char *kTables = R"sql(
CREATE TABLE cycles (
  cycle INTEGER PRIMARY KEY, started TEXT NOT NULL, last_run TEXT NOT NULL, runs INTEGER NOT NULL,
  experiment TEXT NOT NULL, dataset TEXT NOT NULL, metric TEXT NOT NULL, data TEXT NOT NULL,
  classes TEXT NOT NULL, records INTEGER NOT NULL, skipped INTEGER NOT NULL, added INTEGER NOT NULL,
  changed INTEGER NOT NULL, relabelled INTEGER NOT NULL, renamed INTEGER NOT NULL, removed INTEGER NOT NULL,
  unchanged INTEGER NOT NULL, extract_seconds REAL NOT NULL, train_seconds REAL NOT NULL,
  seconds REAL NOT NULL, bytes INTEGER NOT NULL, warm_start INTEGER NOT NULL);
CREATE TABLE candidates (
  candidate TEXT PRIMARY KEY, name TEXT NOT NULL, model TEXT NOT NULL, settings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE trials (
  cycle INTEGER NOT NULL REFERENCES cycles, candidate TEXT NOT NULL REFERENCES candidates, rank INTEGER,
  score REAL, loss REAL, accuracy REAL, balanced_accuracy REAL, recall TEXT,
  training_records INTEGER NOT NULL, epochs INTEGER NOT NULL, best_epoch INTEGER NOT NULL,
  seconds REAL NOT NULL, cached INTEGER NOT NULL, warm INTEGER NOT NULL, failure TEXT,
  PRIMARY KEY (cycle, candidate)) WITHOUT ROWID;
CREATE TABLE features (
  key TEXT PRIMARY KEY, names TEXT NOT NULL, records INTEGER NOT NULL, bytes INTEGER NOT NULL,
  seconds_per_record REAL, last_used TEXT NOT NULL, cycle INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE shards (
  key TEXT NOT NULL, number INTEGER NOT NULL, bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL,
  changed_ns INTEGER NOT NULL, inode INTEGER NOT NULL, PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE TABLE records (
  name TEXT PRIMARY KEY, record TEXT NOT NULL, label TEXT NOT NULL, bytes INTEGER, modified_ns INTEGER,
  changed_ns INTEGER, inode INTEGER) WITHOUT ROWID;
)sql";

void create_tables(const Database &database) {
  Transaction transaction(database);
  database.execute(kTables);
  database.execute("PRAGMA application_id = " + std::to_string(kApplication) +
                   "; PRAGMA user_version = " + std::to_string(kVersion));
  transaction.commit();
}

/// Throws Damaged, or Error for a file that is whole but not ours to touch.
void check(const Database &database) {
  Statement statement(database, "PRAGMA quick_check(1)");
  if (!statement.step() || statement.text(0) != "ok") throw Damaged(database.path() + ": damaged");
  if (database.number("PRAGMA application_id") != kApplication)
    throw Error(database.path() + ": is not a catalogue of tl-select; move it away");
  const std::int64_t version = database.number("PRAGMA user_version");
  if (version > kVersion)
    throw Error(database.path() + ": written by a newer tl-tools (version " + std::to_string(version) +
                ", this program knows up to " + std::to_string(kVersion) +
                "); upgrade, or move it away and lose the history of its cycles");
  if (version < kVersion)
    throw Error(database.path() + ": version " + std::to_string(version) + " does not exist; move it away");
}

bool empty(const Database &database) {
  return database.number("SELECT count(*) FROM sqlite_master") == 0 &&
         database.number("PRAGMA user_version") == 0;
}

/// The database, opened and sound.
Database opened(const std::string &path, bool &fresh) {
  Database database(path, Database::Mode::write);
  // Every commit is on the disk before the next step is taken.
  database.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA");
  fresh = empty(database);
  if (fresh) create_tables(database);
  check(database);
  return database;
}

/// Out of the way, under a name that is free: its history may be worth a rescue.
std::string set_aside(const std::string &path) {
  std::string name = path + ".damaged";
  std::error_code failed;
  for (int i = 2; fs::exists(name, failed); ++i) name = path + ".damaged-" + std::to_string(i);
  fs::rename(path, name, failed);
  if (failed) throw SystemError("rename " + path, failed.value());
  if (fs::exists(path + "-journal", failed)) fs::rename(path + "-journal", name + "-journal", failed);
  return name;
}

shard::Changes changes_of(const Statement &row, int first) {
  shard::Changes changes;
  changes.added = row.integer(first);
  changes.changed = row.integer(first + 1);
  changes.relabelled = row.integer(first + 2);
  changes.renamed = row.integer(first + 3);
  changes.removed = row.integer(first + 4);
  changes.unchanged = row.integer(first + 5);
  return changes;
}

FileState state_of(const Statement &row, int first) {
  return {row.integer(first), row.integer(first + 1), row.integer(first + 2), row.integer(first + 3)};
}

std::string name_of(const Statement &row, int column) { return json::unescape_bytes(row.text(column)); }

json::Value list_of(const Statement &row, int column, const Database &database) {
  const json::Value list = json::parse(row.text(column), database.path());
  if (!list.is_array()) throw Damaged(database.path() + ": damaged: not a list: " + row.text(column));
  return list;
}

/// What the row holds must be as we wrote it.
template <class Read> auto sound(const Database &database, const Read &read) {
  try {
    return read();
  } catch (const json::Value::exception &error) {
    throw Damaged(database.path() + ": damaged: " + error.what());
  } catch (const Damaged &) {
    throw;
  } catch (const FormatError &error) {
    throw Damaged(database.path() + ": damaged: " + error.what());
  }
}

Cycle cycle_of(const Statement &row, const Database &database) {
  Cycle cycle;
  cycle.number = row.integer(0);
  cycle.started = row.text(1);
  cycle.last_run = row.text(2);
  cycle.runs = row.integer(3);
  cycle.experiment = name_of(row, 4);
  cycle.dataset = name_of(row, 5);
  cycle.metric = row.text(6);
  cycle.data = Digest::from_hex(row.text(7));
  for (const json::Value &name : list_of(row, 8, database))
    cycle.classes.push_back(json::unescape_bytes(name.get<std::string>()));
  cycle.records = row.integer(9);
  cycle.skipped = row.integer(10);
  cycle.changes = changes_of(row, 11);
  cycle.extract_seconds = row.real(17);
  cycle.train_seconds = row.real(18);
  cycle.seconds = row.real(19);
  cycle.bytes = row.integer(20);
  cycle.warm_start = row.integer(21) != 0;
  return cycle;
}

TrialRow trial_of(const Statement &row, const Database &database) {
  TrialRow trial;
  trial.candidate = row.text(0);
  trial.name = name_of(row, 1);
  trial.model = name_of(row, 2);
  trial.settings = row.text(3);
  if (!row.null(4)) trial.rank = row.integer(4);
  trial.score = row.real_or_null(5);
  trial.loss = row.real_or_null(6);
  trial.accuracy = row.real_or_null(7);
  trial.balanced_accuracy = row.real_or_null(8);
  if (!row.null(9))
    for (const json::Value &share : list_of(row, 9, database))
      trial.recall.push_back(share.is_null() ? std::nullopt : std::optional<double>(share.get<double>()));
  trial.training_records = row.integer(10);
  trial.epochs = row.integer(11);
  trial.best_epoch = row.integer(12);
  trial.seconds = row.real(13);
  trial.cached = row.integer(14) != 0;
  trial.warm = row.integer(15) != 0;
  trial.failure = name_of(row, 16);
  return trial;
}

} // namespace

Catalogue Catalogue::open(const std::string &path) {
  bool fresh = false;
  try {
    return {opened(path, fresh), fresh, ""};
  } catch (const Damaged &error) {
    const std::string name = set_aside(path);
    Database database = opened(path, fresh);
    return {std::move(database), true,
            std::string(error.what()) + "; kept as " + name + ", and made again without the earlier cycles"};
  }
}

Catalogue Catalogue::read(const std::string &path) {
  std::error_code failed;
  if (!fs::exists(path, failed))
    throw Error(path + ": there is no catalogue; a run of tl-select in this folder makes one");
  Database database(path, Database::Mode::read);
  try {
    check(database);
  } catch (const Damaged &error) {
    throw FormatError(std::string(error.what()) +
                      "; the next run of tl-select sets it aside and makes another");
  }
  return {std::move(database), false, ""};
}

std::vector<RecordRow> Catalogue::records() const {
  return sound(database_, [&] {
    std::vector<RecordRow> rows;
    Statement row(database_,
                  "SELECT name, record, label, bytes, modified_ns, changed_ns, inode FROM records");
    while (row.step()) {
      rows.push_back({name_of(row, 0), Digest::from_hex(row.text(1)), name_of(row, 2), std::nullopt});
      if (!row.null(3)) rows.back().state = state_of(row, 3);
    }
    return rows;
  });
}

std::vector<Cycle> Catalogue::cycles() const {
  return sound(database_, [&] {
    std::vector<Cycle> all;
    Statement row(
        database_,
        "SELECT cycle, started, last_run, runs, experiment, dataset, metric, data, classes, records, "
        "skipped, added, changed, relabelled, renamed, removed, unchanged, extract_seconds, "
        "train_seconds, seconds, bytes, warm_start FROM cycles ORDER BY cycle");
    while (row.step()) all.push_back(cycle_of(row, database_));
    return all;
  });
}

std::vector<TrialRow> Catalogue::trials(std::int64_t cycle) const {
  return sound(database_, [&] {
    std::vector<TrialRow> all;
    Statement row(database_,
                  "SELECT candidate, name, model, settings, rank, score, loss, accuracy, balanced_accuracy, "
                  "recall, training_records, epochs, best_epoch, seconds, cached, warm, failure FROM trials "
                  "JOIN candidates USING (candidate) WHERE cycle = ? ORDER BY rank IS NULL, rank, candidate");
    row.with(cycle);
    while (row.step()) all.push_back(trial_of(row, database_));
    return all;
  });
}

std::vector<FeatureRow> Catalogue::features() const {
  return sound(database_, [&] {
    std::vector<FeatureRow> all;
    Statement row(database_, "SELECT key, names, records, bytes, seconds_per_record, last_used, cycle "
                             "FROM features ORDER BY key");
    while (row.step())
      all.push_back({row.text(0), name_of(row, 1), row.integer(2), row.integer(3), row.real_or_null(4),
                     row.text(5), row.integer(6)});
    return all;
  });
}

ShardStates Catalogue::shards(const std::string &key) const {
  ShardStates states;
  Statement row(database_, "SELECT number, bytes, modified_ns, changed_ns, inode FROM shards WHERE key = ?");
  row.with(key);
  while (row.step()) states[row.integer(0)] = state_of(row, 1);
  return states;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

} // namespace tl::store
