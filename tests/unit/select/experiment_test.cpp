// The experiment document and the grids in it.
#include "select/experiment.h"

#include "cli/error.h"
#include "support/experiments.h"
#include "support/mutate.h"
#include "support/shards.h" // message_of

#include <doctest/doctest.h>

#include <set>

using namespace tl;
using test::names_of;
using test::parsed;

namespace {

json::Value document(const std::string &candidates) {
  return {{"format", "tl-experiment"},
          {"version", 1},
          {"models",
           {{{"name", "a"}, {"path", "a.pt"}, {"preprocess", "imagenet"}},
            {{"name", "b"}, {"path", "/models/b.pt"}, {"preprocess", {{"resize", {8, 8}}}}}}},
          {"candidates", parsed(candidates)}};
}

select::Experiment read(const json::Value &value) {
  return select::experiment_from_json(value, "e.json", "folder");
}
select::Experiment read(const char *candidates) { return read(document(candidates)); }

std::string refusal(const json::Value &value) {
  return test::message_of<FormatError>([&] { read(value); });
}
std::string refusal(const char *candidates) { return refusal(document(candidates)); }

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("one empty candidate is a linear head on every model, with the program's defaults") {
  const select::Experiment experiment = read("[{}]");
  REQUIRE(experiment.candidates.size() == 2);
  CHECK(names_of(experiment) == std::vector<std::string>{"a/linear/adam-lr0.001", "b/linear/adam-lr0.001"});
  CHECK(experiment.models[0].file == "folder/a.pt");
  CHECK(experiment.models[1].file == "/models/b.pt");
  CHECK(*experiment.models[0].preprocess == data::parse_preprocess("imagenet"));
  CHECK(experiment.models[1].preprocess->resize == std::vector<std::int64_t>{8, 8});
  const select::Spec &spec = experiment.candidates[1];
  CHECK(spec.model == 1);
  REQUIRE(spec.scheme.head);
  CHECK(spec.scheme.head->text() == "linear");
  CHECK(spec.scheme.train.empty());
  CHECK(spec.options.validation == 0.2);
  CHECK(spec.options.monitor == train::Monitor::accuracy);
}

TEST_CASE("lists make a grid, the last field changing first, after the defaults") {
  json::Value value = document(R"([{"model": "a", "head": ["linear", "mlp:4"], "lr": [0.1, 0.01]},
                                   {"model": ["b", "a"], "optimizer": "sgd", "epochs": 2, "seed": [1, 2]}])");
  value["defaults"] = parsed(R"({"epochs": 7, "batch": 16})");
  value["seed"] = 5;
  value["metric"] = "balanced-accuracy";
  value["validation"] = 0.3;
  const select::Experiment experiment = read(value);
  REQUIRE(experiment.candidates.size() == 8);
  CHECK(names_of(experiment) ==
        std::vector<std::string>{"a/linear/adam-lr0.1-epochs7", "a/linear/adam-lr0.01-epochs7",
                                 "a/mlp:4/adam-lr0.1-epochs7", "a/mlp:4/adam-lr0.01-epochs7",
                                 "b/linear/sgd-lr0.01-epochs2-seed1", "b/linear/sgd-lr0.01-epochs2-seed2",
                                 "a/linear/sgd-lr0.01-epochs2-seed1", "a/linear/sgd-lr0.01-epochs2-seed2"});
  for (const select::Spec &spec : experiment.candidates) {
    CHECK(spec.options.batch == 16);
    CHECK(spec.options.validation == 0.3);
    CHECK(spec.options.monitor == train::Monitor::balanced_accuracy);
  }
  CHECK(experiment.candidates[0].options.epochs == 7);
  CHECK(experiment.candidates[0].options.seed == 5);
  CHECK(experiment.candidates[0].place == "/candidates/0");
  CHECK(experiment.candidates[7].options.seed == 2);
  CHECK(experiment.candidates[7].options.momentum == 0.9); // sgd's default
  CHECK(experiment.candidates[7].place == "/candidates/1");
  CHECK(experiment.data.seed == 5);
}

TEST_CASE("null stands for none, in grids too") {
  const select::Experiment experiment =
      read(R"([{"model": "a", "head": [null, "linear"], "features": [null, "layer3"], "train": "^layer4"}])");
  REQUIRE(experiment.candidates.size() == 4);
  CHECK(!experiment.candidates[0].scheme.head);
  CHECK(experiment.candidates[0].scheme.features.empty());
  CHECK(experiment.candidates[3].scheme.features == "layer3");
  CHECK(names_of(experiment) ==
        std::vector<std::string>{"a/^layer4/adam-lr0.001", "a/layer3/^layer4/adam-lr0.001",
                                 "a/linear+^layer4/adam-lr0.001", "a/layer3/linear+^layer4/adam-lr0.001"});
}

TEST_CASE("names are unique where settings differ") {
  const select::Experiment experiment = read(
      R"([{"lr": [0.1, 0.2], "weight_decay": [0, 0.5], "schedule": ["constant", "cosine"], "pool": ["auto", "mean"]},
               {"batch": [1, 2], "class_weights": ["none", "balanced"], "label_smoothing": 0.1}, {"head": "mlp:3,4"}])");
  std::set<std::string> names;
  for (const std::string &name : names_of(experiment)) names.insert(name);
  CHECK(names.size() == 2 * 16 + 2 * 4 + 2);
  CHECK(experiment.candidates.size() == names.size());
}

TEST_CASE("an unknown key is refused at every level, with the nearest known one") {
  json::Value value = document("[{}]");
  value["metrics"] = "loss";
  CHECK(refusal(value) == "e.json: the document: unknown key \"metrics\": did you mean 'metric'?");
  value = document("[{}]");
  value["models"][1]["preprocessing"] = "raw";
  CHECK(refusal(value) == "e.json: /models/1: unknown key \"preprocessing\": did you mean 'preprocess'?");
  value = document("[{}]");
  value["defaults"] = {{"epoch", 3}};
  CHECK(refusal(value) == "e.json: /defaults: unknown key \"epoch\": did you mean 'epochs'?");
  value = document("[{}]");
  value["data"] = {{"class", "a"}};
  CHECK(refusal(value) == "e.json: /data: unknown key \"class\": did you mean 'classes'?");
  CHECK(refusal(R"([{}, {"learningrate": 1}])")
            .rfind("e.json: /candidates/1: unknown key \"learningrate\": known are model,", 0) == 0);
  CHECK(has(refusal(R"([{"weightdecay": 1}])"), "did you mean 'weight_decay'?"));
  // Known to tl-train, but one for all candidates here.
  CHECK(has(refusal(R"([{"validation": 0.1}])"), "unknown key"));
  CHECK(has(refusal(R"([{"monitor": "loss"}])"), "unknown key"));
}

TEST_CASE("what makes no sense is refused with its place") {
  CHECK(has(refusal(R"([{"model": "c"}])"), "/candidates/0/model: there is no model called 'c'"));
  CHECK(has(refusal(R"([{"head": ["linear", "mpl:4"]}])"), "/candidates/0/head: unknown head 'mpl:4'"));
  CHECK(has(refusal(R"([{"pool": "max"}])"), "/candidates/0/pool"));
  CHECK(has(refusal(R"([{}, {"optimizer": "adagrad"}])"), "/candidates/1: optimizer: 'adagrad'"));
  CHECK(has(refusal(R"([{"schedule": "step"}])"), "schedule"));
  CHECK(has(refusal(R"([{"optimizer": "adam", "momentum": 0.9}])"), "momentum is for the optimizer sgd"));
  CHECK(has(refusal(R"([{"lr": -1}])"), "/candidates/0/lr"));
  CHECK(has(refusal(R"([{"lr": []}])"), "/candidates/0/lr"));
  CHECK(has(refusal(R"([{"lr": ["x"]}])"), "/candidates/0/lr"));
  CHECK(has(refusal(R"([{"batch": 1.5}])"), "/candidates/0/batch"));
  CHECK(has(refusal(R"([{"epochs": 0}])"), "/candidates/0/epochs"));
  CHECK(has(refusal("[]"), "/candidates"));
  json::Value twice = document("[{}]");
  twice["models"][1]["name"] = "a";
  CHECK(has(refusal(twice), "/models/1: another model is called 'a' already"));
  json::Value pixels = document("[{}]");
  pixels["models"][0]["preprocess"] = "imagenett";
  CHECK(has(refusal(pixels), "/models/0/preprocess: "));
  json::Value newer = document("[{}]");
  newer["version"] = 2;
  CHECK(has(refusal(newer), "newer"));
}

TEST_CASE("a grid that is too large is refused before it is made") {
  std::string list = "[1";
  for (int i = 2; i <= 100; ++i) list += "," + std::to_string(i);
  list += "]";
  const std::string wide = R"({"model": "a", "batch": )" + list + R"(, "epochs": )" + list;
  CHECK(read(document("[" + wide + "}]")).candidates.size() == select::kMaxCandidates);
  for (const std::string &grid : {"[" + wide + R"(, "seed": )" + list + R"(, "warmup": )" + list + "}]",
                                  "[" + wide + R"(}, {"model": "a"}])"})
    CHECK(has(refusal(document(grid)), "more than 10000 candidates"));
}

TEST_CASE("schemes of several values, last blocks and adapters are read and named") {
  const select::Experiment experiment =
      read(R"([{"model": "a", "features": ["x+y", "sum:x+y"], "unfreeze": [0, 2], "adapters": "8:1"}])");
  REQUIRE(experiment.candidates.size() == 4);
  CHECK(experiment.candidates[1].name == "a/x+y/linear+unfreeze2+adapters:8:1/adam-lr0.001");
  CHECK(experiment.candidates[1].scheme.unfreeze == 2);
  CHECK(experiment.candidates[1].scheme.adapters->blocks == 1);
  CHECK(has(refusal(R"([{"adapters": "0"}])"), "/candidates/0/adapters: adapters '0': '0' is not a width"));
  CHECK(has(refusal(R"([{"unfreeze": -1}])"), "/candidates/0/unfreeze"));
}

TEST_CASE("a budget is bytes or text") {
  json::Value value = document("[{}]");
  CHECK_FALSE(read(value).budget.disk);
  value["budget"] = {{"disk", "2G"}, {"memory", 1000}};
  CHECK(*read(value).budget.disk == std::int64_t{2} << 30);
  CHECK(*read(value).budget.memory == 1000);
  value["budget"]["disk"] = "many";
  CHECK(has(refusal(value), "e.json: /budget/disk: 'many' is not a size"));
  value["budget"] = {{"disc", 1}};
  CHECK(has(refusal(value), "did you mean 'disk'?"));
}

TEST_CASE("a search draws the same candidates from the same seed") {
  json::Value value =
      document(R"([{"model": "a", "lr": {"log_uniform": [0.0001, 0.1]}, "batch": {"uniform": [4, 9]},
                                    "momentum": {"uniform": [0, 1]}, "optimizer": {"choice": ["sgd"]}},
                                   {"model": "b", "lr": [0.1, 0.2]}])");
  CHECK(has(refusal(value), "/candidates/0/lr: a range needs a search"));
  value["search"] = {{"strategy", "random"}, {"samples", 40}, {"seed", 3}};
  const select::Experiment experiment = read(value);
  REQUIRE(experiment.candidates.size() == 40);
  std::set<std::string> names;
  std::set<std::int64_t> batches;
  for (const select::Spec &spec : experiment.candidates) {
    names.insert(spec.name);
    if (spec.model != 0) continue;
    batches.insert(spec.options.batch);
    CHECK(spec.options.lr >= 0.0001);
    CHECK(spec.options.lr <= 0.1);
    CHECK(spec.options.optimizer == train::OptimizerKind::sgd);
  }
  CHECK(names.size() == 40);
  CHECK(batches == std::set<std::int64_t>{4, 5, 6, 7, 8, 9});
  CHECK(names_of(read(value)) == names_of(experiment));
  value["search"]["seed"] = 4;
  CHECK(names_of(read(value)) != names_of(experiment));
  value["search"]["seed"] = 3;
  value["search"]["samples"] = 50; // the first ones stay
  for (std::size_t i = 0; i < 40; ++i)
    CHECK(json::compact(train::to_json(read(value).candidates[i].options)) ==
          json::compact(train::to_json(experiment.candidates[i].options)));
}

TEST_CASE("samples of a grid are different points of it") {
  json::Value value = document(R"([{"model": "a", "lr": [0.1, 0.2, 0.3], "seed": [1, 2, 3, 4]}])");
  value["search"] = {{"strategy", "random"}, {"samples", 12}};
  std::vector<std::string> drawn = names_of(read(value));
  CHECK(std::set<std::string>(drawn.begin(), drawn.end()).size() == 12);
  value["search"]["samples"] = 13;
  CHECK(has(refusal(value), "/search/samples: there are only 12 different candidates"));
}

TEST_CASE("a search by rungs says how long candidates train") {
  json::Value value = document(R"([{"model": "a", "lr": [0.1, 0.2, 0.3]}])");
  value["search"] = {{"strategy", "halving"}, {"max_epochs", 27}};
  CHECK(read(value).candidates.size() == 3);
  for (const select::Spec &spec : read(value).candidates) CHECK(spec.options.epochs == 27);
  value["search"]["strategy"] = "hyperband";
  CHECK(read(value).candidates.size() == 3); // all that there are
  value["defaults"] = {{"epochs", 3}};
  CHECK(has(refusal(value), "/epochs: the search says how long candidates train"));
  value.erase("defaults");
  const auto refused = [&](const json::Value &search, const char *why) {
    value["search"] = search;
    const std::string found = refusal(value);
    CHECK_MESSAGE(has(found, why), found);
  };
  refused({{"strategy", "halving"}}, "/search: the strategy halving needs \"max_epochs\"");
  refused({{"strategy", "random"}}, "needs \"samples\"");
  refused({{"strategy", "random"}, {"samples", 2}, {"eta", 3}}, "has no \"eta\"");
  refused({{"strategy", "grid"}, {"samples", 2}}, "takes every combination");
  refused({{"strategy", "hyperband"}, {"samples", 2}, {"max_epochs", 9}}, "its own number");
  refused({{"strategy", "halving"}, {"min_epochs", 9}, {"max_epochs", 3}}, "cannot start");
  refused({{"strategy", "asha"}}, "/search/strategy");
  refused({{"strategy", "random"}, {"sample", 2}}, "did you mean 'samples'?");
  refused({{"samples", 2}}, "/search");
}

TEST_CASE("ranges that make no sense are refused with their place") {
  for (const auto &[range, why] : std::vector<std::pair<const char *, const char *>>{
           {R"({"uniform": [2, 1]})", "ends before it starts"},
           {R"({"log_uniform": [0, 1]})", "starts above 0"},
           {R"({"uniform": [1]})", "/candidates/0/lr"},
           {R"({"uniform": [1, 2, 3]})", "/candidates/0/lr"},
           {R"({"uniform": ["a", "b"]})", "/candidates/0/lr"},
           {R"({"choice": []})", "/candidates/0/lr"},
           {R"({})", "/candidates/0/lr"},
           {R"({"unifrom": [1, 2]})", "did you mean 'uniform'?"},
           {R"({"uniform": [1, 2], "choice": [1]})", "/candidates/0/lr"}}) {
    json::Value value = document(std::string(R"([{"lr": )") + range + "}]");
    value["search"] = {{"strategy", "random"}, {"samples", 2}};
    const std::string found = refusal(value);
    CHECK_MESSAGE(has(found, why), found);
  }
}

TEST_CASE("a damaged document is refused with a message, never misread") {
  json::Value whole =
      document(R"([{"model": ["a"], "features": null, "pool": "mean", "head": "linear", "train": "x",
    "optimizer": "sgd", "lr": [0.1, 0.2], "momentum": 0.5, "weight_decay": 0, "batch": 4, "epochs": 2,
    "schedule": "cosine", "warmup": 1, "clip_norm": 1, "label_smoothing": 0, "class_weights": "none",
    "patience": 2, "seed": 3}])");
  whole["data"] = parsed(
      R"({"format": "webdataset", "classes": ["x", "y"], "limit": 5, "split": "train", "missing": "skip"})");
  whole["metric"] = "loss";
  whole["validation"] = 0.25;
  whole["seed"] = 1;
  whole["defaults"] = {{"epochs", 4}};
  REQUIRE(read(whole).candidates.size() == 2);
  CHECK(read(whole).data.missing == "skip");
  const std::set<std::string> required = {"/format",        "/version",       "/models",
                                          "/candidates",    "/models/0/name", "/models/0/path",
                                          "/models/1/name", "/models/1/path"};
  int removed = 0;
  for (const test::Mutation &mutation : test::mutations(whole)) {
    INFO(mutation.what);
    const std::string place = mutation.what.substr(mutation.what.find(' ') + 1);
    if (mutation.kind == "remove" && required.count(place) == 0) {
      // What "momentum": 0.5 needs may be gone; everything else has a default.
      const std::string why = refusal(mutation.document);
      CHECK(
          (why.empty() || place == "/candidates/0/optimizer" || has(why, place.substr(0, place.rfind('/')))));
      ++removed;
      continue;
    }
    const bool text_for_settings = mutation.what == "retype /models/1/preprocess";
    const std::string why = refusal(mutation.document);
    CHECK(why.rfind("e.json", 0) == 0);
    CHECK((text_for_settings || !why.empty()));
  }
  CHECK(removed > 20);
}

TEST_CASE("an experiment is read from a file, with paths beside it") {
  const test::TempFolder folder;
  json::Value value = document("[{}]");
  folder.write("pixels.json", R"({"resize": [4, 4]})");
  value["models"][0]["preprocess"] = "pixels.json";
  const std::string path = folder.write("sub.json", json::pretty(value));
  const select::Experiment experiment = select::load_experiment(path);
  CHECK(experiment.models[0].file == folder.path("a.pt"));
  CHECK(experiment.models[0].preprocess->resize == std::vector<std::int64_t>{4, 4});
  CHECK(has(
      test::message_of<FormatError>([&] { select::load_experiment(folder.write("x.json", "{\"format\"")); }),
      "x.json:1:"));
  CHECK(!test::message_of([&] { select::load_experiment(folder.path("none.json")); }).empty());
}
