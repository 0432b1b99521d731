#include "select/planner.h"

#include "graph/flops.h"
#include "plan/plan.h"
#include "runtime/at.h"
#include "runtime/clock.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace tl::select {

namespace {

/// A record that was labelled is trained on in this run and in those that follow: so many of them.
constexpr double kRuns = 4;
/// Of a shard folder, beside its rows.
constexpr double kFolderBytes = 16384;
/// Rows that go through the frozen layers at a time.
constexpr double kChunkRows = 32;
/// Of the exact solver, each time it is asked.
constexpr double kSolverSeconds = 0.3;

bool as_pixels(const SharedGraph &graph, graph::ValueId value) {
  return value == 0 && graph.preprocess.kind == data::InputKind::image;
}

std::int64_t stored_bytes(const SharedGraph &graph, graph::ValueId value) {
  return as_pixels(graph, value) ? element_count(graph.value(value).shape) : graph.value(value).bytes();
}

/// Of the layers up to these values, for a record.
double cut_flops(const SharedGraph &graph, const std::vector<graph::ValueId> &values) {
  MultiModel alone(graph.merged->model());
  alone.add(graph.merged->model(), values);
  return alone.flops();
}

/// The experiment as a problem without networks.
class Translation {
public:
  Translation(const std::vector<Candidate> &candidates, const SharedGraphs &graphs, const Costs &costs,
              const PlanOptions &options, const StoredState &stored)
      : candidates_(candidates), graphs_(graphs), costs_(costs), options_(options), stored_(stored) {
    problem_.records = static_cast<double>(options.records);
    problem_.expected = static_cast<double>(options.expected);
    problem_.runs = kRuns;
    if (options.disk_budget) problem_.disk = static_cast<double>(*options.disk_budget);
    problem_.memory = static_cast<double>(options.memory_budget);
    problem_.keep = options.keep;
    problem_.fuse = options.fuse;
    for (std::size_t g = 0; g < graphs.graphs.size(); ++g) add_graph(g);
    for (std::size_t c = 0; c < candidates.size(); ++c) add_candidate(c);
  }

  reuse::FusionProblem &problem() { return problem_; }
  /// -1 for a value that needs no record.
  int node(std::size_t graph, graph::ValueId value) const { return nodes_[graph][at(value)]; }
  /// Graph and value of a node.
  std::pair<std::size_t, graph::ValueId> value(std::size_t node) const { return values_[node]; }

private:
  void add_graph(std::size_t g) {
    const SharedGraph &graph = graphs_.graphs[g];
    const InputCost &input = costs_.inputs.at(graph.input());
    nodes_.emplace_back(graph.graph().values.size(), -1);
    const std::vector<bool> depends = graph::depends_on_input(graph.graph());
    for (std::size_t v = 0; v < graph.graph().values.size(); ++v) {
      const auto id = static_cast<graph::ValueId>(v);
      if (v > 0 && !depends[v]) continue;
      add_value(g, id, v == 0 ? input.read : costs_.values.at(graph.value(id).hash));
    }
    problem_.frozen_bytes = std::max(problem_.frozen_bytes, kChunkRows * input.bytes);
  }

  void add_value(std::size_t g, graph::ValueId id, double compute) {
    const SharedGraph &graph = graphs_.graphs[g];
    const graph::Value &value = graph.value(id);
    reuse::Node node;
    node.name = value.name;
    if (id > 0)
      for (const graph::Operand &operand : graph.graph().nodes[at(value.node)].inputs)
        if (operand.kind == graph::Operand::Kind::value && nodes_[g][at(operand.index)] >= 0)
          node.inputs.push_back(nodes_[g][at(operand.index)]);
    node.compute = compute;
    node.storable = value.kind == graph::ValueKind::tensor && value.batched;
    if (node.storable) {
      const auto bytes = static_cast<double>(stored_bytes(graph, id));
      // A row and its line in the index: hash, label, place, and the name in both.
      node.bytes = bytes + 2 * (48 + options_.id_bytes) + kFolderBytes / std::max(problem_.expected, 1.0);
      node.load = costs_.load.of(bytes) + (as_pixels(graph, id) ? costs_.inputs.at(graph.input()).pixels : 0);
      node.write = costs_.write.of(bytes);
      node.there = share_there(g, id);
    }
    nodes_[g][at(id)] = static_cast<int>(problem_.nodes.size());
    values_.emplace_back(g, id);
    problem_.nodes.push_back(std::move(node));
    problem_.row_bytes.push_back(value.kind == graph::ValueKind::tensor ? static_cast<double>(value.bytes())
                                                                        : 0);
  }

  double share_there(std::size_t g, graph::ValueId id) const {
    const std::optional<Stored> stored = stored_(feature_set(graphs_, g, id));
    if (!stored || problem_.records <= 0) return 0;
    return std::min(1.0, static_cast<double>(stored->records) / problem_.records);
  }

  void add_candidate(std::size_t c) {
    const train::TrainOptions &options = candidates_[c].spec.options;
    const TrainingCost &cost = costs_.training.at(candidates_[c].id);
    reuse::Trainee trainee;
    for (const graph::ValueId read : graphs_.reads[c]) trainee.reads.push_back(node(graphs_.of[c], read));
    using Kind = std::tuple<std::size_t, std::uint64_t, double>;
    const Kind kind{graphs_.of[c], options.seed, options.validation};
    trainee.kind = kinds_.emplace(kind, static_cast<int>(kinds_.size())).first->second;
    // In the first epoch, validation records go by twice.
    trainee.passes = static_cast<double>(options.epochs) + options.validation;
    trainee.fixed_bytes = cost.fixed_bytes;
    trainee.step_bytes = cost.record_bytes * static_cast<double>(options.batch);
    // A validation record takes the forward part, about a third.
    trainee.seconds = cost.seconds * static_cast<double>(options.epochs) * (1 - options.validation * 2 / 3);
    problem_.trainees.push_back(std::move(trainee));
  }

  const std::vector<Candidate> &candidates_;
  const SharedGraphs &graphs_;
  const Costs &costs_;
  const PlanOptions &options_;
  const StoredState &stored_;
  reuse::FusionProblem problem_;
  std::vector<std::vector<int>> nodes_;                        // of each graph's values
  std::vector<std::pair<std::size_t, graph::ValueId>> values_; // of each node
  std::map<std::tuple<std::size_t, std::uint64_t, double>, int> kinds_;
};

/// Sets of one pass read the same input and lack the same records.
void make_passes(ReusePlan &plan, const SharedGraphs &graphs, const StoredState &stored) {
  using PassKey = std::tuple<std::size_t, bool, bool, Digest>; // graph, pixels, stored, records
  std::map<PassKey, std::size_t> passes;
  std::vector<MultiModel> work;
  for (std::size_t s = 0; s < plan.sets.size(); ++s) {
    FeatureSet &set = plan.sets[s];
    const model::Model &model = graphs.graphs[set.graph].merged->model();
    const std::optional<Stored> state = stored(set);
    set.stored = state.has_value();
    const PassKey key{set.graph, set.meta.codec == "u8", set.stored, state ? state->state : Digest()};
    const auto [found, added] = passes.emplace(key, plan.passes.size());
    if (added) {
      plan.passes.emplace_back();
      work.emplace_back(model);
    }
    set.pass = found->second;
    plan.passes[set.pass].sets.push_back(s);
    work[set.pass].add(model, {set.value});
  }
  for (std::size_t p = 0; p < plan.passes.size(); ++p) plan.passes[p].flops = work[p].flops();
}

Group group_of(const reuse::Fused &fused, const Translation &translation, const SharedGraphs &graphs,
               const std::vector<std::size_t> &set_of_node) {
  Group group;
  group.candidates = fused.trainees;
  group.graph = graphs.of[fused.trainees.front()];
  for (const int read : fused.reads) group.outputs.push_back(translation.value(at(read)).second);
  for (std::size_t n = 0; n < fused.uses.size(); ++n) {
    const bool record = translation.value(n).second == 0;
    if (fused.uses[n] == reuse::Use::loaded) group.sets.push_back(set_of_node[n]);
    if (fused.uses[n] == reuse::Use::computed) record ? group.records = true : ++group.computed;
  }
  group.passes = fused.passes;
  group.memory = static_cast<std::int64_t>(fused.memory);
  return group;
}

void add_flops(ReusePlan &plan, const std::vector<Candidate> &candidates, const SharedGraphs &graphs) {
  std::map<std::pair<std::size_t, std::vector<graph::ValueId>>, double> known;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const auto [found, added] = known.emplace(std::pair(graphs.of[c], graphs.reads[c]), 0);
    if (added) found->second = cut_flops(graphs.graphs[graphs.of[c]], graphs.reads[c]);
    plan.separate_flops += found->second * static_cast<double>(candidates[c].spec.options.epochs);
  }
  for (const SharedGraph &graph : graphs.graphs) {
    plan.shared_flops += graph.merged->flops();
    plan.values += graph.graph().values.size();
  }
}

Predicted predict(const reuse::FusionProblem &problem, const reuse::FusionPlan &solved) {
  Predicted predicted;
  predicted.plan = solved.seconds;
  predicted.making = solved.making;
  predicted.separate = reuse::separate_seconds(problem);
  for (const reuse::Trainee &trainee : problem.trainees)
    predicted.training += problem.records * trainee.seconds;
  reuse::FusionProblem everything = problem;
  everything.keep = reuse::Keep::all;
  everything.fuse = false;
  try {
    predicted.everything = reuse::make_plan(everything).seconds;
  } catch (const Error &) { // more than the disk budget
  }
  return predicted;
}

} // namespace

FeatureSet feature_set(const SharedGraphs &graphs, std::size_t g, graph::ValueId id) {
  const SharedGraph &graph = graphs.graphs[g];
  const graph::Value &value = graph.value(id);
  const bool pixels = as_pixels(graph, id);
  const DType dtype = pixels ? DType::u8 : value.dtype;
  FeatureSet set;
  set.graph = g;
  set.value = id;
  set.bytes = stored_bytes(graph, id);
  set.meta.codec = pixels ? "u8" : "fp32";
  set.meta.preprocess = json::compact(data::to_json(graph.preprocess));
  set.meta.preprocess_digest = graph.preprocess.digest();
  set.meta.values = {{value.name, value.hash, dtype, value.shape}};
  Hasher hasher;
  hasher.add("tl-feature-set 1").add(set.meta.codec).add(set.meta.preprocess_digest).add(std::int64_t{1});
  set.key = hasher.add(value.hash).add(name_of(dtype)).add(to_string(value.shape)).digest();
  plan::Plan described; // so that the shards name the same plan as if tl-extract had made them
  described.codec = pixels ? plan::Codec::u8 : plan::Codec::fp32;
  described.values.push_back({value.name, value.hash, value.dtype, value.shape});
  set.meta.plan = described.digest();
  return set;
}

std::int64_t expected_records(std::int64_t records, std::int64_t before) {
  std::int64_t expected = before > 0 ? before : records;
  while (expected < records) expected *= 2;
  return expected;
}

ReusePlan make_reuse_plan(const std::vector<Candidate> &candidates, const SharedGraphs &graphs,
                          const Costs &costs, const PlanOptions &options, const StoredState &stored) {
  const Stopwatch watch;
  Translation translation(candidates, graphs, costs, options, stored);
  reuse::Options solver;
  solver.seconds = kSolverSeconds;
  const reuse::FusionPlan solved = reuse::make_plan(translation.problem(), solver);
  ReusePlan plan;
  plan.records = options.records;
  plan.expected = options.expected;
  plan.disk_budget = options.disk_budget;
  plan.memory_budget = options.memory_budget;
  plan.keep = options.keep;
  plan.fuse = options.fuse;
  plan.gap = solved.gap;
  plan.disk = solved.bytes;
  std::vector<std::size_t> set_of_node(solved.materialised.size());
  for (std::size_t n = 0; n < solved.materialised.size(); ++n) {
    if (!solved.materialised[n]) continue;
    set_of_node[n] = plan.sets.size();
    const auto [graph, value] = translation.value(n);
    plan.sets.push_back(feature_set(graphs, graph, value));
    plan.sets.back().flops = cut_flops(graphs.graphs[graph], {value});
  }
  plan.group_of.resize(candidates.size());
  for (const reuse::Fused &fused : solved.groups) {
    Group group = group_of(fused, translation, graphs, set_of_node);
    group.cache = std::max<std::int64_t>(options.memory_budget - group.memory, 0);
    for (const std::size_t c : group.candidates) plan.group_of[c] = plan.groups.size();
    for (const std::size_t s : group.sets) {
      std::vector<std::size_t> &readers = plan.sets[s].candidates;
      readers.insert(readers.end(), group.candidates.begin(), group.candidates.end());
    }
    plan.groups.push_back(std::move(group));
  }
  for (FeatureSet &set : plan.sets) std::sort(set.candidates.begin(), set.candidates.end());
  make_passes(plan, graphs, stored);
  add_flops(plan, candidates, graphs);
  plan.predicted = predict(translation.problem(), solved);
  plan.planning = watch.seconds();
  return plan;
}

} // namespace tl::select
