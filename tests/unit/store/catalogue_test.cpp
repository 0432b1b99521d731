#include "store/catalogue.h"

#include "cli/io.h"
#include "support/files.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::store;
using tl::test::TempFolder;

namespace {

std::string file_of(const TempFolder &folder) { return folder.path("catalogue.db"); }

RecordRow record(const std::string &name, const std::string &content, const std::string &label) {
  return {name, hash_text(content), label, FileState{7, 100, 200, 3}};
}

TrialRow trial(const std::string &id, double score, bool cached) {
  TrialRow row;
  row.candidate = id;
  row.name = "net/" + id + "\xff";
  row.model = "net";
  row.settings = "{}";
  row.rank = 1;
  row.score = score;
  row.loss = 1 - score;
  row.accuracy = row.balanced_accuracy = score;
  row.recall = {score, std::nullopt};
  row.training_records = 8;
  row.epochs = 4;
  row.best_epoch = 3;
  row.seconds = 0.5;
  row.cached = cached;
  return row;
}

Outcome outcome(std::int64_t records, bool cached) {
  Outcome all;
  Cycle &cycle = all.cycle;
  cycle.started = cycle.last_run = utc_now();
  cycle.experiment = "e\xfe.json";
  cycle.dataset = "photos";
  cycle.metric = "accuracy";
  cycle.data = hash_text(std::to_string(records));
  cycle.classes = {"cat", "d\xfdg"};
  cycle.records = records;
  (cached ? cycle.changes.unchanged : cycle.changes.added) = records;
  cycle.bytes = 4000;
  all.trials = {trial("a", 0.75, cached), trial("b", 0.5, cached)};
  all.trials[1].rank = 2;
  for (std::int64_t i = 0; i < records; ++i)
    all.records.push_back(record("cat/" + std::to_string(i) + "\x80.png", std::to_string(i), "cat"));
  all.features.push_back(
      {"k1", "layer4", records, 4000, cached ? std::nullopt : std::optional<double>(0.25), utc_now(), 0});
  all.shards["k1"] = {{0, {4000, 1, 2, 3}}};
  return all;
}

} // namespace

TEST_CASE("a catalogue gives back what a run left, whatever bytes the names have") {
  const TempFolder folder;
  {
    Catalogue catalogue = Catalogue::open(file_of(folder));
    CHECK(catalogue.fresh());
    CHECK(catalogue.note().empty());
    CHECK(catalogue.add(outcome(3, false)) == 1);
  }
  const Catalogue catalogue = Catalogue::read(file_of(folder));
  const auto cycles = catalogue.cycles();
  REQUIRE(cycles.size() == 1);
  CHECK(cycles[0].experiment == "e\xfe.json");
  CHECK(cycles[0].classes == std::vector<std::string>{"cat", "d\xfdg"});
  CHECK(cycles[0].changes.added == 3);
  CHECK(cycles[0].data == hash_text("3"));
  const auto trials = catalogue.trials(1);
  REQUIRE(trials.size() == 2);
  CHECK(trials[0].name == "net/a\xff");
  CHECK(trials[0].recall == std::vector<std::optional<double>>{0.75, std::nullopt});
  CHECK(trials[1].rank == 2);
  const auto records = catalogue.records();
  REQUIRE(records.size() == 3);
  CHECK(records[2].name == "cat/2\x80.png");
  CHECK(records[2].state == FileState{7, 100, 200, 3});
  CHECK(catalogue.shards("k1") == ShardStates{{0, {4000, 1, 2, 3}}});
  CHECK(catalogue.shards("k2").empty());
}

TEST_CASE("a run that changes nothing is counted, every other is a cycle") {
  const TempFolder folder;
  Catalogue catalogue = Catalogue::open(file_of(folder));
  CHECK(catalogue.add(outcome(3, false)) == 1);
  CHECK(catalogue.add(outcome(3, true)) == 1);
  CHECK(catalogue.cycles().at(0).runs == 2);
  CHECK(catalogue.trials(1).at(0).cached == false); // as it was trained
  Outcome renamed = outcome(3, true);
  renamed.cycle.changes = {2, 0, 0, 0, 1, 0};
  renamed.records[0].name = "other.png";
  CHECK(catalogue.add(renamed) == 2);
  CHECK(catalogue.records().size() == 3);
  Outcome fewer = outcome(3, true);
  fewer.trials.pop_back();
  CHECK(catalogue.add(fewer) == 3);
  CHECK(catalogue.add(outcome(4, false)) == 4);
}

TEST_CASE("what was measured once stays known") {
  const TempFolder folder;
  Catalogue catalogue = Catalogue::open(file_of(folder));
  catalogue.add(outcome(3, false));
  catalogue.add(outcome(3, true));
  REQUIRE(catalogue.features().size() == 1);
  CHECK(catalogue.features()[0].seconds_per_record == 0.25);
  catalogue.distrust();
  CHECK(catalogue.shards("k1").empty());
  catalogue.forget("k1");
  CHECK(catalogue.features().empty());
}

TEST_CASE("a run that dies in the middle of its account leaves the one before") {
  const TempFolder folder;
  Catalogue catalogue = Catalogue::open(file_of(folder));
  catalogue.add(outcome(3, false));
  Outcome broken = outcome(5, false);
  broken.records.push_back(broken.records.front());
  broken.shards["k1"] = {{0, {1, 1, 1, 1}}};
  broken.features[0].key = "k9";
  broken.cycle.data = hash_text("5");
  const Database direct(file_of(folder), Database::Mode::write);
  direct.execute("CREATE TRIGGER full BEFORE INSERT ON records BEGIN SELECT RAISE(ABORT, 'no room'); END");
  CHECK_THROWS_AS(catalogue.add(broken), Error);
  CHECK(catalogue.cycles().size() == 1);
  CHECK(catalogue.shards("k1") == ShardStates{{0, {4000, 1, 2, 3}}});
  CHECK(catalogue.features().at(0).key == "k1");
  CHECK(catalogue.records().size() == 3);
}

TEST_CASE("a catalogue of newer tools, or of somebody else, is left alone") {
  for (const char *change :
       {"PRAGMA user_version = 2", "PRAGMA application_id = 5", "PRAGMA user_version = -1"}) {
    const TempFolder folder;
    Catalogue::open(file_of(folder)).add(outcome(3, false));
    {
      const Database direct(file_of(folder), Database::Mode::write);
      direct.execute(change);
    }
    const std::string before = cli::read_file(file_of(folder), 1 << 24);
    CHECK_THROWS_AS(Catalogue::open(file_of(folder)), Error);
    CHECK_THROWS_AS(Catalogue::read(file_of(folder)), Error);
    CHECK(cli::read_file(file_of(folder), 1 << 24) == before);
  }
}

TEST_CASE("no damage crashes: a catalogue opens, is set aside, or is refused in one line") {
  const TempFolder folder;
  Catalogue::open(file_of(folder)).add(outcome(40, false));
  const std::string sound = cli::read_file(file_of(folder), 1 << 24);
  std::vector<std::string> damaged{"no database at all", std::string(5000, '\0'), sound + "more"};
  for (std::size_t size = 1; size < sound.size(); size += 1531) damaged.push_back(sound.substr(0, size));
  for (std::size_t at = 0; at < sound.size(); at += at < 120 ? 3 : 613) {
    damaged.push_back(sound);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x5A);
  }
  int aside = 0;
  for (const std::string &bytes : damaged) {
    const TempFolder other;
    other.write("catalogue.db", bytes);
    try {
      Catalogue catalogue = Catalogue::open(file_of(other));
      catalogue.records();
      catalogue.add(outcome(3, false));
      if (!catalogue.note().empty()) {
        ++aside;
        CHECK(cli::read_file(file_of(other) + ".damaged", 1 << 24) == bytes);
      }
    } catch (const Error &error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
  }
  CHECK(aside > 10);
}

TEST_CASE("there is nothing to read before the first run") {
  const TempFolder folder;
  CHECK_THROWS_WITH_AS(Catalogue::read(file_of(folder)), doctest::Contains("there is no catalogue"), Error);
  CHECK_THROWS_AS(Catalogue::open(folder.path("nowhere/catalogue.db")), SystemError);
}
