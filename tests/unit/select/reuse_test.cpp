// What candidates share: ids, the multi-model graph, the reuse plan, extraction into several sets at once.
#include "cli/error.h"
#include "graph/flops.h"
#include "model/program.h"
#include "model/tensors.h"
#include "select/feature_store.h"
#include "select/measure.h"
#include "select/multi_model.h"
#include "support/experiments.h"
#include "support/mutate.h"
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

/// Candidates with their graphs, and plans for them.
struct Planned {
  explicit Planned(std::vector<Candidate> found)
      : candidates(std::move(found)), graphs(select::share(candidates)),
        costs(test::made_up_costs(graphs, candidates)) {
    options.records = options.expected = 36;
    options.memory_budget = 1 << 30;
    options.keep = reuse::Keep::all;
  }
  ReusePlan plan(const select::StoredState &stored = kNothing) const {
    return select::make_reuse_plan(candidates, graphs, costs, options, stored);
  }

  /// To extract one value alone.
  extract::Prefix prefix(const select::FeatureSet &set) const {
    const select::SharedGraph &graph = graphs.graphs[set.graph];
    graph::Cut cut;
    cut.values = {set.value};
    return extract::Prefix(graph.merged->model(), cut, graph.preprocess);
  }

  std::vector<Candidate> candidates;
  select::SharedGraphs graphs;
  select::Costs costs;
  select::PlanOptions options;
};

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
  const Planned planned(w.resolve(R"([{"lr": [0.1, 0.2]}])").all);
  REQUIRE(planned.candidates.size() == 6);
  const ReusePlan plan = planned.plan();
  REQUIRE(plan.sets.size() == 2);
  CHECK(plan.sets[0].candidates == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(plan.sets[1].candidates == std::vector<std::size_t>{4, 5});
  REQUIRE(plan.groups.size() == 2); // who reads the same trains together
  CHECK(plan.group_of == std::vector<std::size_t>{0, 0, 0, 0, 1, 1});
  CHECK(plan.groups[0].sets == std::vector<std::size_t>{0});
  CHECK(!plan.groups[0].records);
  REQUIRE(plan.passes.size() == 1); // one reading, for both backbones
  CHECK(plan.passes[0].flops == doctest::Approx(plan.sets[0].flops + plan.sets[1].flops));
  CHECK(plan.separate_flops == doctest::Approx(3 * (4 * plan.sets[0].flops + 2 * plan.sets[1].flops)));
  CHECK(plan.sets[0].bytes == 16 * 4); // 2 * channels, after the mean
}

TEST_CASE("a value on the way to another is computed once") {
  Workshop w;
  const Planned planned(w.resolve(R"([{"features": "block"}, {}, {"train": "^down"}, {"train": ".*"}])").all);
  const ReusePlan plan = planned.plan();
  REQUIRE(plan.sets.size() == 4);
  REQUIRE(plan.passes.size() == 2); // pixels are read apart: they are kept in one byte each
  const select::FeatureSet &pixels = plan.sets[0];
  CHECK(pixels.meta.codec == "u8");
  CHECK(pixels.bytes == 3 * 8 * 8);
  CHECK(pixels.candidates == std::vector<std::size_t>{3});
  CHECK(plan.passes[1].sets == std::vector<std::size_t>{1, 2, 3});
  // The whole is what the deepest needs, and the pooling of the other.
  double deepest = 0, sum = 0;
  for (std::size_t s = 1; s < 4; ++s) {
    deepest = std::max(deepest, plan.sets[s].flops);
    sum += plan.sets[s].flops;
  }
  CHECK(plan.passes[1].flops < 1.01 * deepest);
  CHECK(sum > 2 * deepest);
  CHECK(plan.shared_flops == doctest::Approx(plan.passes[1].flops));
  const json::Value document = to_json(plan, planned.candidates, planned.graphs);
  json::validate(document, "reuse", "the plan");
  CHECK(document["sets"][0]["candidates"][0] == planned.candidates[3].id);
  std::string text;
  for (const std::string &line : explain(plan, planned.candidates, planned.graphs)) text += line + "\n";
  for (const Candidate &candidate : planned.candidates)
    CHECK(text.find(candidate.name()) != std::string::npos);
  CHECK(text.find("4 of them are kept for 36 records, extracted in 2 passes") != std::string::npos);
}

TEST_CASE("what is not kept is computed in the pass, for all of its candidates at once") {
  Workshop w;
  Planned planned(w.resolve(R"([{"features": ["block", null], "lr": [0.1, 0.2]}, {"seed": 1}])").all);
  planned.options.keep = reuse::Keep::none;
  ReusePlan plan = planned.plan();
  CHECK(plan.sets.empty());
  REQUIRE(plan.groups.size() == 2); // another seed reads the records in another order
  CHECK(plan.groups[0].candidates == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(plan.groups[0].records);
  CHECK(plan.groups[0].outputs.size() == 2);
  CHECK(plan.groups[0].passes == 1); // memory holds the rows
  CHECK(plan.predicted.plan < plan.predicted.separate);
  json::validate(to_json(plan, planned.candidates, planned.graphs), "reuse", "the plan");
  planned.options.memory_budget = plan.groups[0].memory - 1; // not for all at once
  CHECK(planned.plan().groups.size() > 2);
  planned.options.memory_budget = 0; // neither for two, nor for rows
  plan = planned.plan();
  CHECK(plan.groups.size() == 5);
  CHECK(plan.groups[0].passes == doctest::Approx(3.2));
  planned.options.memory_budget = 1 << 30;
  planned.options.fuse = false;
  CHECK(planned.plan().groups.size() == 5);
}

TEST_CASE("the plan keeps within the disk budget, and costs no more than keeping everything") {
  Workshop w;
  Planned planned(
      w.resolve(R"([{"features": ["block", "down", null], "epochs": [3, 9]}, {"train": ".*"}])").all);
  planned.options.memory_budget = 0;
  const double everything = planned.plan().predicted.plan;
  planned.options.keep = reuse::Keep::plan;
  ReusePlan plan = planned.plan();
  CHECK(plan.predicted.plan <= everything * (1 + 1e-9));
  REQUIRE(plan.predicted.everything);
  CHECK(plan.predicted.plan <= *plan.predicted.everything * (1 + 1e-9));
  planned.options.disk_budget = 36 * (plan.bytes() / 2);
  const ReusePlan half = planned.plan();
  CHECK(half.bytes() * 36 <= *planned.options.disk_budget);
  CHECK(half.predicted.plan >= plan.predicted.plan * (1 - 1e-9));
  CHECK(!half.predicted.everything);
  planned.options.keep = reuse::Keep::all;
  CHECK(test::message_of([&] { planned.plan(); }).find("disk budget") != std::string::npos);
}

TEST_CASE("what is planned for doubles until it suffices") {
  CHECK(select::expected_records(500, 0) == 500);
  CHECK(select::expected_records(500, 500) == 500);
  CHECK(select::expected_records(400, 500) == 500);
  CHECK(select::expected_records(501, 500) == 1000);
  CHECK(select::expected_records(2001, 500) == 4000);
}

TEST_CASE("costs are read as they were written, damaged ones are refused") {
  Workshop w;
  const Planned planned(w.resolve(R"([{}, {"train": "^down"}])").all);
  const json::Value document = to_json(planned.costs);
  CHECK(to_json(select::costs_from_json(document, "file")) == document);
  for (const test::Mutation &mutation : test::mutations(document)) {
    INFO(mutation.what);
    CHECK_THROWS_AS(select::costs_from_json(mutation.document, "file"), FormatError);
  }
}

TEST_CASE("measuring gives every candidate and every value a cost, once") {
  Workshop w;
  w.add_model("other", {2});
  const char *text =
      R"([{"features": ["block", null]}, {"train": "conv2", "batch": 2}, {"lr": 1e38, "optimizer": "sgd"}])";
  const select::Experiment experiment = w.experiment(text);
  const data::Dataset dataset = w.dataset(experiment);
  const std::vector<Candidate> candidates = select::resolve(experiment, dataset).all;
  const select::SharedGraphs graphs = select::share(candidates);
  select::Costs costs;
  std::filesystem::create_directories(w.runs());
  CHECK(select::measure(costs, graphs, candidates, dataset, w.runs()));
  CHECK(std::filesystem::is_empty(w.runs()));
  json::validate(to_json(costs), "costs", "costs");
  for (const Candidate &candidate : candidates) {
    CHECK(costs.training.at(candidate.id).seconds > 0);
    CHECK(costs.training.at(candidate.id).fixed_bytes > 0);
  }
  const select::SharedGraph &graph = graphs.graphs.at(0);
  CHECK(costs.inputs.at(graph.input()).read > 0);
  CHECK(costs.inputs.at(graph.input()).bytes > 0);
  double sum = 0;
  for (const auto &[hash, seconds] : costs.values) sum += seconds;
  CHECK(sum > 0);
  CHECK(costs.load.of(1e6) > 0);
  CHECK(costs.write.of(1e6) > 0);
  const json::Value before = to_json(costs);
  CHECK(!select::measure(costs, graphs, candidates, dataset, w.runs()));
  CHECK(to_json(costs) == before);
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
  Planned planned(select::resolve(experiment, dataset).all);
  planned.options.records = planned.options.expected = 18;
  const ReusePlan plan = planned.plan();
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
    CHECK_THROWS(extract::extract(dataset, planned.prefix(first), sink, part));
  }
  CHECK(!select::stored_state(store, first));
  const select::PassReport report =
      select::run_pass(plan, plan.passes[0], planned.graphs, dataset, store, options);
  REQUIRE(report.sets.size() == 4); // of the residual block, both branches
  for (const shard::SinkReport &set : report.sets) CHECK(set.records == 18);
  CHECK(report.extraction.computed == 18);
  for (const select::FeatureSet &set : plan.sets) {
    const extract::Prefix prefix = planned.prefix(set);
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
  CHECK(planned.plan(state).passes.size() == 1);
  CHECK(select::run_pass(plan, plan.passes[0], planned.graphs, dataset, store, options).extraction.computed ==
        0);
  std::filesystem::remove_all(select::set_folder(store, plan.sets[1]));
  const ReusePlan later = planned.plan(state);
  REQUIRE(later.passes.size() == 2);
  CHECK(later.sets[0].stored);
  CHECK(!later.sets[1].stored);
  CHECK(later.sets[2].stored);
  CHECK(
      select::run_pass(later, later.passes[0], planned.graphs, dataset, store, options).extraction.computed ==
      0);
  CHECK(select::run_pass(later, later.passes[1], planned.graphs, dataset, store, options).sets[0].written ==
        18);
}
