// The whole of tl-select below its command line.
#include "select/select.h"

#include "cli/error.h"
#include "model/export.h"
#include "model/tensors.h"
#include "shard/folder_files.h"
#include "support/experiments.h"
#include "support/shards.h"
#include "train/fit.h"
#include "train/network.h"
#include "train/sources.h"

#include <doctest/doctest.h>
#include <torch/script.h>

#include <filesystem>
#include <fstream>

using namespace tl;
using select::Selection;
using test::Workshop;
namespace fs = std::filesystem;

namespace {

json::Value line_of(const Selection &selection, const std::string &name) {
  for (const json::Value &line : selection.leaderboard.at("candidates"))
    if (line.at("name") == name) return line;
  throw Error("no candidate " + name);
}

std::size_t cached(const Selection &selection) {
  std::size_t count = 0;
  for (const select::Row &row : selection.rows) count += row.trial.cached;
  return count;
}

std::string text_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

json::Value changes(const Selection &selection, std::size_t set = 0) {
  return selection.leaderboard.at("features").at(set).at("changes");
}

std::vector<std::string> files_below(const std::string &folder) {
  std::vector<std::string> files;
  for (const auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  return files;
}

} // namespace

TEST_CASE("every candidate gets what training it alone from the pictures gives") {
  Workshop w;
  const char *candidates = R"([{"head": ["linear", "mlp:6"], "seed": [0, 3]},
    {"features": "block", "optimizer": "sgd", "schedule": "cosine"},
    {"train": "^down|^block.bn2", "class_weights": "balanced"}, {"train": ".*", "epochs": 2}])";
  const Selection selection = w.run(candidates);
  REQUIRE(selection.rows.size() == 7);
  const select::Experiment experiment = w.experiment(candidates);
  for (const select::Row &row : selection.rows) {
    const select::Spec &spec = experiment.candidates[row.candidate];
    INFO(spec.name);
    const data::Preprocess preprocess = *experiment.models[0].preprocess;
    data::Dataset dataset = w.dataset(experiment);
    const model::Model pretrained =
        model::load_model(w.folder.path("net.pt"), {DType::f32, {3, 8, 8}}, preprocess.digest());
    const train::Network network =
        train::make_network(pretrained, spec.scheme, 3, spec.options.seed, "input");
    train::Trainer trainer(network.model, network.start, 3, spec.options);
    train::SourceOptions how;
    how.order = spec.options.seed;
    train::Features features(train::dataset_source(std::move(dataset), preprocess, spec.options.seed, how),
                             network.frozen, 3, {1 << 20, 0});
    std::vector<train::EpochResult> epochs;
    train::fit(features, {&trainer},
               [&](std::size_t, const train::EpochResult &result) { epochs.push_back(result); });
    const json::Value &history = row.trial.history;
    REQUIRE(history.size() == epochs.size());
    for (std::size_t e = 0; e < epochs.size(); ++e) {
      const json::Value &line = history[e];
      CHECK(line.at("loss").get<double>() == doctest::Approx(epochs[e].train.loss).epsilon(1e-5));
      CHECK(line.at("validation_loss").get<double>() ==
            doctest::Approx(epochs[e].validation->loss()).epsilon(1e-5));
    }
    CHECK(row.trial.best_epoch == trainer.best_epoch());
    const train::EpochResult &best = epochs[static_cast<std::size_t>(trainer.best_epoch() - 1)];
    CHECK(row.trial.score == best.validation->accuracy());
  }
}

TEST_CASE("the leaderboard is ranked and the best model is a whole TorchScript file") {
  Workshop w;
  const Selection selection = w.run(R"([{"head": ["linear", "mlp:6"], "lr": [0.05, 0.001]}])");
  json::validate(selection.leaderboard, "leaderboard", "the leaderboard");
  CHECK(json::parse(text_of(w.runs() + "/leaderboard.json"), "file") == selection.leaderboard);
  json::validate(json::parse(text_of(w.runs() + "/reuse-plan.json"), "file"), "reuse", "the plan");
  for (std::size_t i = 1; i < selection.rows.size(); ++i)
    CHECK(selection.rows[i - 1].trial.score >= selection.rows[i].trial.score);
  CHECK(selection.leaderboard.at("best") == selection.rows[0].trial.id);
  CHECK(selection.best == w.runs() + "/best/model.pt");

  const json::Value card = json::parse(model::read_extra(selection.best, "tl.json"), "card");
  json::validate(card, "model", "card");
  CHECK(card.at("classes") == json::Value({"cat", "dog", "owl"}));
  CHECK(card.at("validation") == selection.rows[0].trial.validation);

  // Its accuracy over the validation records, by LibTorch alone, is the leaderboard's.
  const select::Experiment experiment = w.experiment("[{}]");
  const data::Dataset dataset = w.dataset(experiment);
  data::Loader loader(dataset, data::record_order(dataset, false, 0), *experiment.models[0].preprocess, {});
  torch::jit::Module module = torch::jit::load(selection.best);
  std::int64_t right = 0, records = 0;
  while (const std::optional<data::Batch> batch = loader.next()) {
    const at::Tensor classes = module.forward({model::to_torch(batch->input)}).toTensor().argmax(1);
    for (std::size_t i = 0; i < batch->size(); ++i) {
      if (!train::is_validation(batch->hashes[i], 0.2, 0)) continue;
      ++records;
      right += classes[static_cast<std::int64_t>(i)].item<std::int64_t>() == batch->labels[i];
    }
  }
  CHECK(records == selection.rows[0].trial.validation.at("records"));
  CHECK(right == doctest::Approx(selection.rows[0].trial.score * static_cast<double>(records)));
}

TEST_CASE("a further run does nothing that is done") {
  Workshop w;
  const char *candidates = R"([{"head": ["linear", "mlp:6"]}, {"train": ".*"}])";
  const Selection first = w.run(candidates);
  const std::string model = text_of(first.best);
  const auto written = fs::last_write_time(first.best);
  const Selection again = w.run(candidates);
  CHECK(cached(again) == 3);
  CHECK(fs::last_write_time(again.best) == written);
  for (const json::Value &set : again.leaderboard.at("features")) {
    CHECK(set.at("written") == 0);
    CHECK(set.at("changes").at("unchanged") == 36);
  }
  CHECK(line_of(again, again.rows[0].trial.name).at("score") == first.rows[0].trial.score);

  SUBCASE("a new candidate is the only work") {
    const Selection more =
        w.run(R"([{"head": ["linear", "mlp:6", "mlp:5"]}, {"train": ".*"}, {"features": "block"}])");
    CHECK(cached(more) == 3);
    std::int64_t computed = 0;
    for (const json::Value &set : more.leaderboard.at("features"))
      computed += set.at("written").get<std::int64_t>();
    CHECK(computed == 36);
  }
  SUBCASE("the best of what is asked for is kept, whatever was better before") {
    const std::string loser = again.rows[2].trial.name;
    const std::size_t place = again.rows[2].candidate;
    const std::vector<const char *> single = {R"([{"head": "linear"}])", R"([{"head": "mlp:6"}])",
                                              R"([{"train": ".*"}])"};
    const Selection one = w.run(single[place]);
    CHECK(cached(one) == 1);
    CHECK(one.rows.size() == 1);
    CHECK(text_of(one.best) != model);
    CHECK(json::parse(text_of(w.runs() + "/best/trial.json"), "f").at("id") == again.rows[2].trial.id);
  }
  SUBCASE("what is damaged or lost is made again, to the same end") {
    for (const std::string &file : files_below(w.runs())) {
      const std::string name = fs::path(file).filename().string();
      if (name == ".lock") continue;
      for (const bool lost : {true, false}) {
        INFO(file << (lost ? " lost" : " damaged"));
        if (lost)
          fs::remove(file);
        else
          fs::resize_file(file, fs::file_size(file) / 2);
        const Selection repaired = w.run(candidates);
        CHECK(repaired.rows[0].trial.id == again.rows[0].trial.id);
        CHECK(repaired.rows[0].trial.score == again.rows[0].trial.score);
        if (name.rfind("shard-", 0) != 0) CHECK(fs::exists(file)); // a new shard gets a new number
      }
    }
    CHECK(cached(w.run(candidates)) == 3);
  }
}

TEST_CASE("data that changes costs what it must") {
  Workshop w;
  const char *candidates = R"([{"head": ["linear", "mlp:6"]}])";
  w.run(candidates);
  SUBCASE("new records alone are extracted") {
    for (unsigned i = 0; i < 4; ++i) w.photos.add("dog/new" + std::to_string(i) + ".ppm", 1000 + i);
    const Selection grown = w.run(candidates);
    CHECK(changes(grown).at("added") == 4);
    CHECK(changes(grown).at("unchanged") == 36);
    CHECK(grown.leaderboard.at("features")[0].at("written") == 4);
    CHECK(cached(grown) == 0);
    // The same as if all had been there from the start.
    fs::remove_all(w.runs());
    const Selection fresh = w.run(candidates);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(fresh.rows[i].trial.id == grown.rows[i].trial.id);
      CHECK(fresh.rows[i].trial.validation.at("loss").get<double>() ==
            doctest::Approx(grown.rows[i].trial.validation.at("loss").get<double>()).epsilon(1e-5));
    }
  }
  SUBCASE("a changed label trains again without extraction") {
    w.photos.move("cat/0.ppm", "dog/moved.ppm");
    const Selection relabelled = w.run(candidates);
    CHECK(changes(relabelled).at("relabelled") == 1);
    CHECK(relabelled.leaderboard.at("features")[0].at("written") == 0);
    CHECK(cached(relabelled) == 0);
  }
  SUBCASE("a removed record trains again, and back again is as before") {
    w.photos.remove("owl/3.ppm");
    const Selection less = w.run(candidates);
    CHECK(changes(less).at("removed") == 1);
    CHECK(less.leaderboard.at("features")[0].at("written") == 0);
    CHECK(cached(less) == 0);
    w.photos.add("owl/3.ppm", 28);
    CHECK(changes(w.run(candidates)).at("added") == 1);
  }
  SUBCASE("a changed picture is extracted") {
    w.photos.add("cat/1.ppm", 4711);
    const Selection other = w.run(candidates);
    CHECK(changes(other).at("changed") == 1);
    CHECK(other.leaderboard.at("features")[0].at("written") == 1);
  }
  SUBCASE("another class makes other candidates of it") {
    for (unsigned i = 0; i < 4; ++i) w.photos.add("yak/" + std::to_string(i) + ".ppm", 2000 + i);
    const Selection four = w.run(candidates);
    CHECK(cached(four) == 0);
    CHECK(four.rows[0].trial.validation.at("recall").size() == 4);
  }
}

TEST_CASE("a candidate that fails is last and says why, the others are not touched") {
  Workshop w;
  const std::string broken = R"([{"lr": 1e38, "optimizer": "sgd", "head": "mlp:6"})";
  const Selection selection = w.run((broken + R"(, {"lr": [0.01, 0.02]}])").c_str());
  REQUIRE(selection.rows.size() == 3);
  CHECK(selection.rows[2].candidate == 0);
  CHECK(selection.rows[2].trial.failed());
  const json::Value line = selection.leaderboard.at("candidates")[2];
  CHECK(line.at("status") == "failed");
  CHECK(line.at("failure").get<std::string>().find("finite") != std::string::npos);
  CHECK(!line.contains("rank"));
  CHECK(!line.contains("score"));
  json::validate(selection.leaderboard, "leaderboard", "the leaderboard");
  const std::string text = table(selection.rows, train::Monitor::accuracy);
  CHECK(text.find("failed: ") != std::string::npos);
  CHECK(cached(w.run((broken + "]").c_str())) == 1); // it would fail again
  const Selection none = w.run((broken + "]").c_str());
  CHECK(none.best.empty());
  CHECK(none.leaderboard.at("best").is_null());
  CHECK(!fs::exists(w.runs() + "/best/model.pt")); // of an earlier experiment
}

TEST_CASE("damaged records end the work, or are skipped, named and counted") {
  Workshop w;
  w.photos.add_damaged("cat/bad.ppm");
  CHECK(test::message_of([&] { w.run("[{}]"); }).find("cat/bad.ppm") != std::string::npos);
  std::vector<std::string> warnings;
  select::SelectEvents events;
  events.warn = [&](const std::string &line) { warnings.push_back(line); };
  const Selection selection = w.run(w.document(R"([{}, {"train": ".*", "epochs": 1}])"), true, events);
  CHECK(selection.skipped == 1);
  REQUIRE(selection.leaderboard.at("skipped").size() == 1);
  CHECK(selection.leaderboard.at("skipped")[0].at("id") == "cat/bad.ppm");
  CHECK(selection.leaderboard.at("inputs") == 37);
  CHECK(selection.leaderboard.at("features")[0].at("records") == 36);
  std::size_t named = 0;
  for (const std::string &line : warnings) named += line.find("skipped cat/bad.ppm") != std::string::npos;
  CHECK(named == 1);
}

TEST_CASE("what cannot be selected on is refused") {
  Workshop w;
  SUBCASE("one class") {
    fs::remove_all(w.photos.root() + "/dog");
    fs::remove_all(w.photos.root() + "/owl");
    CHECK(test::message_of([&] { w.run("[{}]"); }).find("two or more") != std::string::npos);
  }
  SUBCASE("runs inside the data") {
    const select::Experiment experiment = w.experiment("[{}]");
    const data::Dataset dataset = w.dataset(experiment);
    for (const char *place : {"/runs", "", "/cat/../x/runs"})
      CHECK(test::message_of<UsageError>([&] {
              select::SelectOptions inside;
              inside.runs = w.photos.root() + place;
              select::select(experiment, dataset, inside);
            }).find("inside the data set") != std::string::npos);
    CHECK(!fs::exists(w.photos.root() + "/runs"));
  }
  SUBCASE("a folder that another run works in") {
    fs::create_directories(w.runs());
    const shard::FolderLock other(w.runs());
    CHECK(test::message_of([&] {
            w.run("[{}]");
          }).find("process " + std::to_string(getpid()) + " is writing here") != std::string::npos);
  }
}

TEST_CASE("a run that died leaves nothing half-written behind") {
  Workshop w;
  w.run("[{}]");
  const fs::path runs = w.runs();
  const std::string trial = fs::directory_iterator(runs / "trials")->path().string();
  const std::vector<std::string> leftovers = {
      (runs / ".leaderboard.json.aB3dEf").string(), (runs / "best/.model.pt.aB3dEf").string(),
      trial + "/.result.json.aB3dEf", trial + "/.weights.safetensors.aB3dEf"};
  const std::string foreign = (runs / ".notes.txt.aB3dEf").string();
  for (const std::string &file : leftovers) std::ofstream(file) << "half";
  std::ofstream(foreign) << "mine";
  w.run("[{}]");
  for (const std::string &file : leftovers) CHECK(!fs::exists(file));
  CHECK(fs::exists(foreign));
}

TEST_CASE("a class or a record whose name is not UTF-8 is no obstacle") {
  Workshop w;
  for (unsigned i = 0; i < 6; ++i) w.photos.add("\xff\\owl\n/" + std::to_string(i) + ".ppm", 3000 + i);
  const Selection selection = w.run("[{}]");
  CHECK(selection.leaderboard.at("classes").size() == 4);
  json::validate(selection.leaderboard, "leaderboard", "the leaderboard");
  CHECK(cached(w.run("[{}]")) == 1);
}
