// The folder of a run: what a kill, a rerun, a change and a damaged file do.
#include "support/training.h"
#include "train/run.h"

#include "cli/error.h"
#include "model/export.h"
#include "train/checkpoint.h"
#include "train/metrics_log.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace tl;
using test::Points;
using test::TempFolder;
using train::RunFolder;
using train::TrainOptions;
using Mode = train::RunFolder::Mode;

namespace {

TrainOptions options(std::int64_t epochs = 4) {
  TrainOptions result;
  result.epochs = epochs;
  result.batch = 5;
  result.lr = 0.02;
  result.validation = 0.3;
  return result;
}

train::Setup setup(const train::Chunk &chunk, std::int64_t classes = 3) {
  train::Setup result;
  result.network = test::point_network(false);
  result.source = std::make_unique<test::MemorySource>(chunk, classes);
  result.classes = result.source->classes();
  result.scheme.train = ".*";
  result.cut = "input";
  return result;
}

struct Said {
  std::vector<std::string> notes, warnings;
};

train::RunReport run(const std::string &folder, Mode mode, const TrainOptions &training,
                     const train::Chunk &chunk = Points{43}.all(), Said *said = nullptr) {
  Said ignored;
  Said &heard = said ? *said : ignored;
  train::RunOptions how;
  how.resume = mode == Mode::resume;
  how.cache_bytes = 1 << 20;
  how.note = [&](const std::string &line) { heard.notes.push_back(line); };
  how.warn = [&](const std::string &line) { heard.warnings.push_back(line); };
  return train::run_training(RunFolder(folder, mode), setup(chunk), training, how);
}

std::string slurp(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Of the epochs' lines: epoch, training loss and validation as text, without times.
std::vector<std::string> epochs(const std::string &folder) {
  std::vector<std::string> found;
  std::istringstream lines(slurp(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json::Value document = json::parse(line, "metrics");
    json::validate(document, "metrics", "metrics");
    if (document.at("event") == "epoch")
      found.push_back(json::compact(document.at("epoch")) + json::compact(document.at("train")) +
                      json::compact(document.at("validation")) + json::compact(document.at("lr")));
  }
  return found;
}

template <class Action> std::string refusal(const Action &action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("a run leaves metrics, a checkpoint and a model that gives the best epoch's outputs") {
  const TempFolder folder;
  const train::RunReport report = run(folder.path("run"), Mode::fresh, options());
  CHECK(epochs(folder.path("run")).size() == 4);
  json::validate(report.summary, "metrics", "summary");
  CHECK(report.summary.at("epoch") == 4);
  CHECK(report.summary.at("stopped") == "epochs");
  const json::Value document =
      json::parse(model::read_extra(folder.path("run/model.pt"), "tl.json"), "tl.json");
  json::validate(document, "model", "tl.json");
  CHECK(document.at("classes").size() == 3);
  CHECK(document.at("epoch") == report.summary.at("best_epoch"));
  // The file on its own, with the checkpoint's account of the best epoch.
  torch::jit::Module module = torch::jit::load(folder.path("run/model.pt"));
  const train::Chunk chunk = Points{43}.all();
  train::Evaluation evaluation(3);
  for (std::size_t i = 0; i < chunk.records.size(); ++i) {
    if (!train::is_validation(chunk.records[i].hash, 0.3, 0)) continue;
    const auto place = static_cast<std::int64_t>(i);
    evaluation.add(module.forward({model::to_torch(chunk.values[0]).narrow(0, place, 1)}).toTensor(),
                   at::tensor(std::vector<std::int64_t>{chunk.records[i].label}));
  }
  CHECK(evaluation.loss() ==
        doctest::Approx(report.summary.at("validation").at("loss").get<double>()).epsilon(1e-5));
}

TEST_CASE("a resumed run has the metrics of one that ran through, wherever it stopped") {
  const TempFolder folder;
  run(folder.path("whole"), Mode::fresh, options());
  const std::vector<std::string> expected = epochs(folder.path("whole"));
  for (int stop = 1; stop <= 4; ++stop) {
    const std::string name = folder.path("run" + std::to_string(stop));
    run(name, Mode::resume, options(stop)); // begins it
    // What a kill between the metrics and the checkpoint, or in the middle of a line, leaves.
    std::ofstream(name + "/metrics.jsonl", std::ios::app)
        << R"({"format":"tl-metrics","version":1,"event":"epoch","epoch":)" << stop + 1 << "}\n{\"form";
    std::filesystem::remove(name + "/model.pt");
    run(name, Mode::resume, options());
    CHECK(epochs(name) == expected);
    CHECK(std::filesystem::exists(name + "/model.pt"));
  }
}

TEST_CASE("a changed run is not resumed, and the change is named") {
  const TempFolder folder;
  const std::string name = folder.path("run");
  run(name, Mode::fresh, options(2));
  const auto resumed = [&](const TrainOptions &training, const train::Chunk &chunk) {
    return refusal([&] { run(name, Mode::resume, training, chunk); });
  };
  const train::Chunk points = Points{43}.all();
  TrainOptions rate = options(3);
  rate.lr = 0.5;
  rate.batch = 6;
  CHECK(resumed(rate, points).find("batch 5 -> 6, lr 0.02 -> 0.5") != std::string::npos);
  train::Chunk relabelled = points;
  relabelled.records[7].label = (relabelled.records[7].label + 1) % 3;
  CHECK(resumed(options(3), relabelled).find("the records or their labels") != std::string::npos);
  train::Setup other = setup(points);
  other.classes[1] = "renamed";
  train::RunOptions how;
  how.resume = true;
  how.note = how.warn = [](const std::string &) {};
  CHECK(refusal([&] {
          train::run_training(RunFolder(name, Mode::resume), std::move(other), options(3), how);
        }).find("the classes") != std::string::npos);
  // More epochs and more patience change nothing that has happened.
  TrainOptions more = options(3);
  more.patience = 3;
  CHECK(resumed(more, points).empty());
  CHECK(epochs(name).size() == 3);
}

TEST_CASE("an earlier run is neither overwritten unasked nor mixed with a new one") {
  const TempFolder folder;
  const std::string name = folder.path("run");
  run(name, Mode::fresh, options(2));
  CHECK(refusal([&] { run(name, Mode::fresh, options(2)); }).find("--resume") != std::string::npos);
  TrainOptions other = options(1);
  other.lr = 0.5;
  run(name, Mode::replace, other);
  CHECK(epochs(name).size() == 1);
}

TEST_CASE("a finished run can be resumed: nothing is trained, and the model is there") {
  const TempFolder folder;
  const std::string name = folder.path("run");
  run(name, Mode::fresh, options(2));
  std::filesystem::remove(name + "/model.pt");
  const train::RunReport report = run(name, Mode::resume, options(2));
  CHECK(std::filesystem::exists(name + "/model.pt"));
  CHECK(report.summary.at("epoch") == 2);
  CHECK(report.summary.at("records").at("training").size() == 3);
  CHECK(epochs(name).size() == 2);
}

TEST_CASE("a damaged checkpoint is an error, wherever a byte has changed") {
  const TempFolder folder;
  const std::string name = folder.path("run");
  run(name, Mode::fresh, options(1));
  const std::string path = name + "/checkpoint.safetensors", good = slurp(path);
  for (std::size_t place = 3; place < good.size(); place += good.size() / 15) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 4);
    std::ofstream(path, std::ios::binary) << bad;
    CHECK_THROWS_AS(train::load_checkpoint(path), FormatError);
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
    std::ofstream(path, std::ios::binary) << good.substr(0, size);
    CHECK_THROWS_AS(train::load_checkpoint(path), FormatError);
  }
  std::ofstream(path, std::ios::binary) << good;
  CHECK(train::load_checkpoint(path)->identity.classes.size() == 3);
}

TEST_CASE("what killed runs left half-written goes, and nothing else") {
  const TempFolder folder;
  const std::vector<std::string> partial = {".checkpoint.safetensors.a1B2c3", ".model.pt.a1B2c3",
                                            ".model.pt.unproved", "..model.pt.unproved.a1B2c3"};
  const std::vector<std::string> others = {".notes.txt.a1B2c3", "notes.txt", ".model.pt.mine",
                                           "features.a1B2c3"};
  for (const std::vector<std::string> &names : {partial, others})
    for (const std::string &name : names) folder.write(name, "x");
  const RunFolder tidied(folder.path(), Mode::fresh);
  for (const std::string &name : partial) CHECK_FALSE(std::filesystem::exists(folder.path(name)));
  for (const std::string &name : others) CHECK(std::filesystem::exists(folder.path(name)));
}

TEST_CASE("one process at a time") {
  const TempFolder folder;
  const RunFolder first(folder.path("run"), Mode::fresh);
  const std::string message = refusal([&] { RunFolder(folder.path("run"), Mode::resume); });
  CHECK(message.find(std::to_string(getpid())) != std::string::npos);
}

TEST_CASE("a failure leaves the last good checkpoint and no model") {
  const TempFolder folder;
  const std::string name = folder.path("run");
  run(name, Mode::fresh, options(1));
  std::filesystem::remove(name + "/model.pt");
  train::Chunk chunk = Points{43}.all();
  std::size_t victim = 0;
  while (train::is_validation(chunk.records[victim].hash, 0.3, 0)) ++victim;
  chunk.values[0].as<float>()[victim * 4] = INFINITY;
  CHECK_THROWS_AS(run(name, Mode::resume, options(3), chunk), train::NotFinite);
  CHECK(!std::filesystem::exists(name + "/model.pt"));
  CHECK(train::load_checkpoint(name + "/checkpoint.safetensors")->state.progress.at("epoch") == 1);
}

TEST_CASE("classes without records are warned of, skipped records named") {
  const TempFolder folder;
  train::Chunk chunk = Points{43}.all();
  for (train::RecordInfo &record : chunk.records)
    if (record.label == 2) record.label = 1;
  Said said;
  run(folder.path("run"), Mode::fresh, options(1), chunk, &said);
  REQUIRE(said.warnings.size() == 2);
  CHECK(said.warnings[0].find("class 2") != std::string::npos);
  CHECK(said.warnings[0].find("train") != std::string::npos);
  CHECK(said.warnings[1].find("validation") != std::string::npos);
}

TEST_CASE("a log keeps what a checkpoint knows of") {
  const std::string start = R"({"event":"start","epoch":0})"
                            "\n",
                    one = R"({"event":"epoch","epoch":1})"
                          "\n",
                    two = R"({"event":"epoch","epoch":2})"
                          "\n",
                    end = R"({"event":"summary","epoch":2})"
                          "\n",
                    again = R"({"event":"start","epoch":2})"
                            "\n";
  const std::string all = start + one + two + end + again;
  CHECK(train::kept_lines(all, 0) == start);
  CHECK(train::kept_lines(all, 1) == start + one);
  CHECK(train::kept_lines(all, 2) == start + one + two + again);
  CHECK(train::kept_lines(start + one + "{\"event\":\"ep", 5) == start + one);
  CHECK(train::kept_lines(start + "garbage\n" + one, 5) == start);
  CHECK(train::kept_lines("", 5).empty());
}
