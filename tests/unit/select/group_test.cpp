// Candidates that train in one pass: the same results as alone, whatever happens to one of them, and however
// often it stops on the way.
#include "select/train_group.h"

#include "select/feature_store.h"
#include "support/experiments.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>

using namespace tl;
using select::Assignment;
using select::Candidate;
using select::ReusePlan;
using select::Trial;
using test::Workshop;
namespace fs = std::filesystem;

namespace {

/// Candidates of one seed, with nothing on disk, or with what they read.
class Bench {
public:
  Bench(const Workshop &workshop, const char *text, reuse::Keep keep)
      : experiment_(workshop.experiment(text)), dataset_(workshop.dataset(experiment_)),
        candidates_(select::resolve(experiment_, dataset_).all), graphs_(select::share(candidates_)),
        store_(workshop.folder.path("store")) {
    select::PlanOptions options;
    options.records = options.expected = static_cast<std::int64_t>(dataset_.records().size());
    options.memory_budget = 1 << 30;
    options.keep = keep;
    plan_ = select::make_reuse_plan(candidates_, graphs_, test::made_up_costs(graphs_, candidates_), options,
                                    [](const select::FeatureSet &) { return std::nullopt; });
    for (const select::Pass &pass : plan_.passes)
      select::run_pass(plan_, pass, graphs_, dataset_, store_, {});
    data_ = select::data_digest(dataset_, 1, nullptr);
  }

  const ReusePlan &plan() const { return plan_; }
  const std::vector<Candidate> &candidates() const { return candidates_; }

  /// Trials in the order of the candidates; those that are not in `work` are left empty.
  std::vector<Trial> train(const std::string &trials, const std::vector<Assignment> &work) const {
    std::vector<Trial> results(candidates_.size());
    std::map<std::size_t, std::vector<Assignment>> by_group;
    for (const Assignment &assignment : work)
      by_group[plan_.group_of[assignment.candidate]].push_back(assignment);
    select::GroupEvents events;
    events.folder = [&](std::size_t c) { return select::TrialFolder{trials + "/" + candidates_[c].id}; };
    events.done = [&](std::size_t c, Trial trial) {
      CHECK(results[c].id.empty()); // once
      results[c] = std::move(trial);
    };
    for (const auto &[group, members] : by_group)
      select::train_group({graphs_, plan_, dataset_, store_, 1, false}, candidates_, group, members, data_,
                          events);
    return results;
  }

  std::vector<Assignment> all(std::int64_t epochs) const {
    std::vector<Assignment> work;
    for (std::size_t c = 0; c < candidates_.size(); ++c)
      work.push_back({c, std::min(epochs, candidates_[c].spec.options.epochs)});
    return work;
  }

private:
  select::Experiment experiment_;
  data::Dataset dataset_;
  std::vector<Candidate> candidates_;
  select::SharedGraphs graphs_;
  std::string store_;
  ReusePlan plan_;
  Digest data_;
};

void check_same(const Trial &a, const Trial &b) {
  INFO(a.name);
  CHECK(a.failed() == b.failed());
  CHECK(a.best_epoch == b.best_epoch);
  REQUIRE(a.history.size() == b.history.size());
  for (std::size_t e = 0; e < a.history.size(); ++e)
    for (const char *loss : {"loss", "validation_loss"})
      CHECK(a.history[e].at(loss).get<double>() ==
            doctest::Approx(b.history[e].at(loss).get<double>()).epsilon(1e-5));
}

const char *const kMixed = R"([{"head": ["linear", "mlp:6"], "features": [null, "block"], "batch": [8, 5]},
  {"lr": [3, 1], "epochs": 12, "patience": 1}, {"lr": 1e38, "optimizer": "sgd", "head": "mlp:5"},
  {"train": "^down|^block.bn2", "class_weights": "balanced", "optimizer": "sgd"}])";

} // namespace

TEST_CASE("candidates that train in one pass get what each gets alone") {
  const Workshop w;
  const Bench records(w, kMixed, reuse::Keep::none);
  const std::vector<Trial> alone = [&] {
    std::vector<Trial> results;
    for (const Assignment &one : records.all(100))
      results.push_back(records.train(w.folder.path("alone"), {one})[one.candidate]);
    return results;
  }();
  REQUIRE(records.plan().groups.size() == 1);
  CHECK(records.plan().groups[0].records);
  CHECK(alone[10].failed());
  CHECK(alone[8].epochs < 12); // out of patience
  const std::vector<Trial> together = records.train(w.folder.path("together"), records.all(100));
  const Bench stored(w, kMixed, reuse::Keep::all);
  CHECK(stored.plan().groups.size() > 1);
  const std::vector<Trial> loaded = stored.train(w.folder.path("loaded"), stored.all(100));
  for (std::size_t c = 0; c < alone.size(); ++c) {
    check_same(alone[c], together[c]);
    check_same(alone[c], loaded[c]);
  }
}

TEST_CASE("a candidate that is stopped on the way goes on as if it had not been") {
  const Workshop w;
  const Bench bench(w, R"([{"head": ["linear", "mlp:6"], "epochs": [3, 5]}, {"features": "block"}])",
                    reuse::Keep::none);
  const std::vector<Trial> straight = bench.train(w.folder.path("straight"), bench.all(100));
  const std::string trials = w.folder.path("rungs");
  for (const std::int64_t epochs : {1, 2})
    for (const Trial &trial : bench.train(trials, bench.all(epochs))) CHECK(trial.epochs == epochs);
  // One goes further than the others, so that they are at different epochs in the end.
  CHECK(bench.train(trials, {{0, 3}})[0].epochs == 3);
  std::vector<Assignment> rest = bench.all(100);
  rest.erase(rest.begin());
  const std::vector<Trial> last = bench.train(trials, rest);
  for (std::size_t c = 1; c < straight.size(); ++c) check_same(straight[c], last[c]);
  for (const Candidate &candidate : bench.candidates())
    CHECK(!fs::exists(trials + "/" + candidate.id + "/state.safetensors"));

  SUBCASE("and from the start if what it left is damaged") {
    const std::string again = w.folder.path("again");
    bench.train(again, bench.all(2));
    for (const Candidate &candidate : bench.candidates()) {
      const std::string state = again + "/" + candidate.id + "/state.safetensors";
      REQUIRE(fs::exists(state));
      fs::resize_file(state, fs::file_size(state) / 2);
    }
    const std::vector<Trial> results = bench.train(again, bench.all(100));
    for (std::size_t c = 0; c < straight.size(); ++c) check_same(straight[c], results[c]);
  }
}
