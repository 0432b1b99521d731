// What candidates share: ids, the multi-model graph, the reuse plan, extraction into several sets at once.
#include "cli/error.h"
#include "graph/flops.h"
#include "model/program.h"
#include "model/tensors.h"
#include "select/feature_store.h"
#include "select/multi_model.h"
#include "support/experiments.h"
#include "support/shards.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <set>

using namespace tl;
using select::Candidate;
using select::ReusePlan;
using test::Workshop;

namespace {

const select::StoredState kNothing = [](const select::FeatureSet &) { return std::nullopt; };

ReusePlan plan_of(const std::vector<Candidate> &candidates) {
  return select::make_reuse_plan(candidates, 36, kNothing);
}

/// Frozen values of a candidate, by a program of its own.
std::vector<at::Tensor> alone(const select::Prepared &prepared, const at::Tensor &input) {
  return model::FrozenProgram(prepared.model, {0}, prepared.inputs).run({input});
}

/// One record's row of each value in a shard folder, by record.
std::map<Digest, std::vector<at::Tensor>> rows_in(const std::string &folder) {
  std::map<Digest, std::vector<at::Tensor>> rows;
  shard::FolderSource source(folder);
  while (const std::optional<shard::Shard> shard = source.next())
    for (std::int64_t i = 0; i < shard->size(); ++i)
      for (const Tensor &value : shard->values)
        rows[shard->records[static_cast<std::size_t>(i)]].push_back(model::to_torch(value)[i].clone());
  return rows;
}

} // namespace

TEST_CASE("an id says what is trained and how, not names, paths or data") {
  Workshop a, b(3);
  const auto id = [](const Workshop &w, const char *candidates) {
    return w.resolve(candidates).all.at(0).id;
  };
  const std::string base = id(a, "[{}]");
  CHECK(base.size() == 16);
  CHECK(id(b, "[{}]") == base); // other records
  std::filesystem::rename(b.folder.path("net.pt"), b.folder.path("moved.pt"));
  b.models[0] = {{"name", "other"}, {"path", "moved.pt"}, {"preprocess", {{"resize", {8, 8}}}}};
  CHECK(id(b, "[{}]") == base); // another name and file, the same preprocessing said otherwise
  std::set<std::string> ids = {base};
  for (const char *other : {R"([{"lr": 0.02}])", R"([{"seed": 1}])", R"([{"head": "mlp:4"}])",
                            R"([{"features": "block"}])", R"([{"train": "^down"}])", R"([{"epochs": 4}])",
                            R"([{"batch": 9}])", R"([{"class_weights": "balanced"}])"})
    ids.insert(id(a, other));
  a.models[0]["preprocess"] = "raw,resize=8x8,mean=0.5/0.5/0.5,std=0.5/0.5/0.5";
  ids.insert(id(a, "[{}]"));
  Workshop c;
  c.models.clear();
  c.add_model("net", {2});
  ids.insert(id(c, "[{}]")); // other weights
  CHECK(ids.size() == 11);
}

TEST_CASE("the same candidate twice is tried once, with a note") {
  Workshop w;
  w.models.push_back({{"name", "copy"}, {"path", "net.pt"}, {"preprocess", test::kSmallPictures}});
  const select::Candidates found = w.resolve(R"([{"lr": [0.1, 0.1, 0.2]}, {"model": "net", "lr": 0.2}])");
  CHECK(found.all.size() == 2);
  CHECK(found.notes.size() == 5);
}

TEST_CASE("schemes that cannot work are refused before any record is read, with their place") {
  Workshop w;
  const auto refused = [&](const char *candidates) {
    return test::message_of<FormatError>([&] { w.resolve(candidates); });
  };
  CHECK(refused(R"([{}, {"features": "blok"}])").find("/candidates/1 (net/blok/linear") != std::string::npos);
  CHECK(refused(R"([{"train": "^nothing"}])").find("matches none") != std::string::npos);
  CHECK(refused(R"([{"head": null}])").find("nothing would be trained") != std::string::npos);
  CHECK(refused(R"([{"train": "bn1", "batch": 1}])").find("batch-norm") != std::string::npos);
  CHECK(w.resolve(R"([{"train": "bn1", "batch": 2}, {"batch": 1}])").all.size() == 2);
  w.models[0]["path"] = "none.pt";
  CHECK(test::message_of([&] { w.resolve("[{}]"); }).find("none.pt") != std::string::npos);
}

TEST_CASE("candidates of files with the same backbone share its features by content") {
  Workshop w;
  w.add_model("retrained", {1, 7}); // another classifier on the same backbone
  w.add_model("other", {2});
  const std::vector<Candidate> candidates = w.resolve(R"([{"lr": [0.1, 0.2]}])").all;
  REQUIRE(candidates.size() == 6);
  const ReusePlan plan = plan_of(candidates);
  REQUIRE(plan.sets.size() == 2);
  CHECK(plan.sets[0].candidates == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(plan.sets[1].candidates == std::vector<std::size_t>{4, 5});
  CHECK(plan.set_of == std::vector<std::size_t>{0, 0, 0, 0, 1, 1});
  REQUIRE(plan.passes.size() == 1); // one reading, for both backbones
  CHECK(plan.passes[0].flops == doctest::Approx(plan.sets[0].flops + plan.sets[1].flops));
  CHECK(plan.separate_flops == doctest::Approx(3 * (4 * plan.sets[0].flops + 2 * plan.sets[1].flops)));
  CHECK(plan.sets[0].bytes == 16 * 4); // 2 * channels, after the mean
}

TEST_CASE("a value on the way to another is computed once") {
  Workshop w;
  const std::vector<Candidate> candidates =
      w.resolve(R"([{"features": "block"}, {}, {"train": "^down"}, {"train": ".*"}])").all;
  const ReusePlan plan = plan_of(candidates);
  REQUIRE(plan.sets.size() == 4);
  REQUIRE(plan.passes.size() == 2); // pixels are read apart: they are kept in one byte each
  CHECK(plan.passes[0].sets == std::vector<std::size_t>{0, 1, 2});
  CHECK(plan.sets[3].meta.codec == "u8");
  CHECK(plan.sets[3].bytes == 3 * 8 * 8);
  // The whole is what the deepest needs, and the pooling of the other.
  double deepest = 0, sum = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    deepest = std::max(deepest, plan.sets[s].flops);
    sum += plan.sets[s].flops;
  }
  CHECK(plan.passes[0].flops < 1.01 * deepest);
  CHECK(sum > 2 * deepest);
  CHECK(plan.shared_flops == doctest::Approx(plan.passes[0].flops));
  const json::Value document = to_json(plan, candidates);
  json::validate(document, "reuse", "the plan");
  CHECK(document["sets"][3]["candidates"][0] == candidates[3].id);
  std::string text;
  for (const std::string &line : explain(plan, candidates)) text += line + "\n";
  for (const Candidate &candidate : candidates) CHECK(text.find(candidate.name()) != std::string::npos);
  CHECK(text.find("4 candidates read 4 feature sets, extracted in 2 passes over 36 records") !=
        std::string::npos);
}

TEST_CASE("the multi-model graph computes what each model computes alone") {
  Workshop w;
  w.add_model("retrained", {1, 7});
  w.add_model("other", {2, 3, 12});
  const std::vector<Candidate> candidates =
      w.resolve(R"([{"features": ["block", "down", null, "conv1"]}, {"train": "conv2"}])").all;
  select::MultiModel merged(candidates[0].prepared->model);
  std::size_t nodes = 0;
  for (int round = 0; round < 2; ++round) { // adding again adds nothing
    for (const Candidate &candidate : candidates)
      merged.add(candidate.prepared->model, candidate.prepared->inputs);
    if (round == 0) nodes = merged.model().graph.nodes.size();
  }
  CHECK(merged.model().graph.nodes.size() == nodes);
  std::size_t separate = 0;
  for (const Candidate &candidate : candidates) separate += candidate.prepared->model.graph.nodes.size();
  CHECK(3 * nodes < separate);
  graph::check(merged.model().graph);

  std::vector<graph::ValueId> outputs;
  for (const Candidate &candidate : candidates)
    for (std::size_t i = 0; i < candidate.prepared->inputs.size(); ++i)
      outputs.push_back(merged.find(candidate.prepared->input(i).hash));
  const at::Tensor input = test::Draws(3).uniform({5, 3, 8, 8}, 0, 1);
  const std::vector<at::Tensor> got = model::FrozenProgram(merged.model(), {0}, outputs).run({input});
  std::size_t next = 0;
  for (const Candidate &candidate : candidates)
    for (const at::Tensor &want : alone(*candidate.prepared, input)) {
      INFO(candidate.name());
      CHECK(at::allclose(got.at(next++), want, 1e-5, 1e-6));
    }
}

TEST_CASE("one pass fills every set as if it were extracted alone, and goes on where another broke off") {
  Workshop w(6);
  const char *candidates = R"([{"features": ["block", null]}, {"train": "conv2"}])";
  const select::Experiment experiment = w.experiment(candidates);
  const data::Dataset dataset = w.dataset(experiment);
  const std::vector<Candidate> all = select::resolve(experiment, dataset).all;
  const ReusePlan plan = plan_of(all);
  REQUIRE(plan.passes.size() == 1);
  const std::string store = w.folder.path("store");
  extract::ExtractOptions options;
  options.shuffle = true;

  // One set has most records already, without an index; another has none.
  const select::FeatureSet &first = plan.sets[0];
  {
    shard::ShardMeta meta = first.meta;
    meta.classes = dataset.classes();
    meta.values[0].name = "an older name";
    shard::FolderSink sink(select::set_folder(store, first), meta);
    extract::ExtractOptions part = options;
    part.progress = [&, seen = std::size_t{0}](std::size_t records) mutable {
      if ((seen += records) >= 10) throw Error("enough");
    };
    part.batch = 5;
    const select::Prepared &prepared = *all[first.candidates[0]].prepared;
    graph::Cut cut;
    cut.values = prepared.inputs;
    shard::SinkOptions small;
    CHECK_THROWS(
        extract::extract(dataset, extract::Prefix(prepared.model, cut, prepared.preprocess), sink, part));
  }
  CHECK(!select::stored_state(store, first));
  const select::PassReport report = select::run_pass(plan, plan.passes[0], all, dataset, store, options);
  REQUIRE(report.sets.size() == 3);
  for (const shard::SinkReport &set : report.sets) CHECK(set.records == 18);
  CHECK(report.extraction.computed == 18);
  for (const select::FeatureSet &set : plan.sets) {
    const select::Prepared &prepared = *all[set.candidates[0]].prepared;
    graph::Cut cut;
    cut.values = prepared.inputs;
    const extract::Prefix prefix(prepared.model, cut, prepared.preprocess);
    shard::ShardMeta meta = prefix.meta();
    meta.classes = dataset.classes();
    const std::string lonely = w.folder.path("alone-" + set.key.hex());
    shard::FolderSink sink(lonely, meta);
    extract::extract(dataset, prefix, sink, options);
    const auto want = rows_in(lonely), got = rows_in(select::set_folder(store, set));
    REQUIRE(want.size() == 18);
    REQUIRE(got.size() == 18);
    for (const auto &[record, values] : want)
      for (std::size_t v = 0; v < values.size(); ++v)
        CHECK(at::allclose(got.at(record).at(v), values[v], 1e-5, 1e-6));
    const auto order = [](const std::string &folder) {
      std::vector<std::string> ids;
      for (const shard::IndexEntry &entry : shard::read_index(folder)->entries)
        ids.push_back(entry.member.id);
      return ids;
    };
    CHECK(order(lonely) == order(select::set_folder(store, set)));
  }
  // Nothing is left to do, and what differs in state is not computed again beside what is new.
  const auto state = [&](const select::FeatureSet &set) { return select::stored_state(store, set); };
  CHECK(select::make_reuse_plan(all, 18, state).passes.size() == 1);
  CHECK(select::run_pass(plan, plan.passes[0], all, dataset, store, options).extraction.computed == 0);
  std::filesystem::remove_all(select::set_folder(store, plan.sets[1]));
  const ReusePlan later = select::make_reuse_plan(all, 18, state);
  REQUIRE(later.passes.size() == 2);
  CHECK(later.sets[0].stored);
  CHECK(!later.sets[1].stored);
  CHECK(select::run_pass(later, later.passes[0], all, dataset, store, options).extraction.computed == 0);
  CHECK(select::run_pass(later, later.passes[1], all, dataset, store, options).sets[0].written == 18);
}
