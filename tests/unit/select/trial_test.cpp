// Results as documents, and their ranking.
#include "cli/error.h"
#include "select/leaderboard.h"
#include "support/mutate.h"
#include "support/shards.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using select::Trial;

namespace {

Trial trial(const std::string &name, double accuracy, double loss) {
  Trial result;
  result.id = hash_text(name).hex().substr(0, 16);
  result.name = name;
  result.data = hash_text("data");
  result.training_records = 8;
  result.epochs = 2;
  result.best_epoch = 1;
  result.score = accuracy;
  result.validation = {{"records", 4},
                       {"loss", loss},
                       {"accuracy", accuracy},
                       {"balanced_accuracy", accuracy / 2},
                       {"recall", {accuracy, nullptr}}};
  result.history = json::Value::array();
  for (int e = 1; e <= 2; ++e)
    result.history.push_back({{"epoch", e},
                              {"loss", 1.5},
                              {"lr", 0.1},
                              {"validation_loss", loss},
                              {"accuracy", accuracy},
                              {"balanced_accuracy", 0.5}});
  result.seconds = 1.25;
  return result;
}

Trial failed(const std::string &name) {
  Trial result = trial(name, 0, 0);
  result.failure = "the loss is \xff not finite";
  result.final = true;
  return result;
}

} // namespace

TEST_CASE("a trial is read as it was written") {
  for (const Trial &before : {trial("net/\xfe linear", 0.75, 0.5), failed("net")}) {
    const json::Value document = to_json(before);
    const Trial after = select::trial_from_json(json::parse(json::pretty(document), "file"), "file");
    CHECK(to_json(after) == document);
    CHECK(after.name == before.name);
    CHECK(after.failure == before.failure);
    CHECK(after.data == before.data);
  }
}

TEST_CASE("a damaged trial is refused") {
  for (const Trial &sound : {trial("net", 0.75, 0.5), failed("net")})
    for (const test::Mutation &mutation : test::mutations(to_json(sound))) {
      INFO(mutation.what);
      CHECK_THROWS_AS(select::trial_from_json(mutation.document, "file"), FormatError);
    }
  json::Value both = to_json(trial("net", 0.75, 0.5));
  both["status"] = "failed";
  CHECK_THROWS_AS(select::trial_from_json(both, "file"), FormatError);
}

TEST_CASE("best score first, then the lower loss, then the order of the experiment, failures last") {
  std::vector<Trial> trials = {failed("f1"),          trial("a", 0.5, 0.9), trial("b", 0.75, 0.6),
                               trial("c", 0.75, 0.4), failed("f2"),         trial("d", 0.5, 0.9)};
  std::vector<std::string> names;
  for (const select::Row &row : select::rank(trials)) {
    names.push_back(row.trial.name);
    CHECK(trials[row.candidate].name == row.trial.name);
  }
  CHECK(names == std::vector<std::string>{"c", "b", "a", "d", "f1", "f2"});
  // A loss counts negatively as a score, so that larger is better for every metric.
  for (Trial &t : trials)
    if (!t.failed()) t.score = -t.validation.at("loss").get<double>();
  CHECK(select::rank(trials)[0].trial.name == "c");
  CHECK(select::rank({}).empty());
}

TEST_CASE("the table has a line for each candidate and marks the metric") {
  const std::string text = select::table(
      select::rank({trial("short", 0.5, 0.25), trial("a much longer name", 1, 0.125), failed("bad\nname")}),
      train::Monitor::loss);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  CHECK(text.find("loss*") != std::string::npos);
  CHECK(text.find("accuracy*") == std::string::npos);
  CHECK(text.find("\n   1  a much longer name") != std::string::npos);
  CHECK(text.find("100.0%") < text.find("50.0%"));
  CHECK(text.find("failed: the loss is \\xff not finite") != std::string::npos);
  CHECK(text.find(" \n") == std::string::npos);
}
