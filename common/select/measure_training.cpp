#include "select/measure_training.h"

#include "cli/error.h"
#include "graph/flops.h"
#include "model/build.h"
#include "model/peak_memory.h"
#include "profile/records.h"
#include "runtime/at.h"
#include "runtime/clock.h"
#include "train/trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

namespace tl::select {

namespace {

constexpr std::int64_t kFewRecords = 4;
constexpr double kBrief = 0.05; // seconds of a step of few records that is worth a whole batch

/// Operations and bytes of the layers above the frozen ones, for a record.
struct Work {
  double flops = 0, bytes = 0, parameters = 0;
};

Work work_of(const Prepared &prepared) {
  const graph::Graph &graph = prepared.model.graph;
  Work work;
  for (const int n : model::needed_nodes(graph, prepared.inputs, {graph.output})) {
    work.flops += graph::flops(graph, graph.nodes[at(n)]);
    for (const graph::ValueId out : graph.nodes[at(n)].outputs)
      if (graph.values[at(out)].kind == graph::ValueKind::tensor)
        work.bytes += static_cast<double>(graph.values[at(out)].bytes());
  }
  for (const graph::Parameter &parameter : graph.parameters)
    if (parameter.trainable) work.parameters += static_cast<double>(parameter.bytes());
  return work;
}

/// The trained copy, gradients, the best epoch's copy, and what the optimiser keeps.
double fixed_bytes(const Work &work, const train::TrainOptions &options) {
  const int slots = options.optimizer != train::OptimizerKind::sgd ? 2 : options.momentum != 0 ? 1 : 0;
  return (3 + slots) * work.parameters;
}

class Steps {
public:
  Steps(const SharedGraphs &graphs, const std::vector<Candidate> &candidates)
      : graphs_(graphs), candidates_(candidates) {}

  /// Nothing if numbers overflow on made-up records.
  std::optional<TrainingCost> measure(std::size_t c) {
    const train::TrainOptions &options = candidates_[c].spec.options;
    const std::int64_t few = std::min(options.batch, kFewRecords);
    try {
      const TrainingCost cost = time(c, few);
      const bool brief = cost.seconds * static_cast<double>(few) < kBrief;
      return options.batch > few && brief ? time(c, options.batch) : cost;
    } catch (const train::NotFinite &) {
      return std::nullopt;
    }
  }

private:
  /// A warm-up step, whose memory is looked at, and one that is timed.
  TrainingCost time(std::size_t c, std::int64_t batch) {
    const Prepared &prepared = *candidates_[c].prepared;
    train::TrainOptions options = candidates_[c].spec.options;
    options.batch = batch;
    options.lr = 0; // steps that never diverge
    model::Model model = prepared.model;
    model::initialise(model, options.seed);
    std::int64_t classes = model.graph.values[at(model.graph.output)].shape.at(0);
    train::Trainer trainer(model, prepared.inputs, classes, options);
    if (trainer.needs_counts())
      trainer.set_counts(std::vector<std::int64_t>(at(static_cast<int>(classes)), 1));
    std::deque<train::RecordInfo> records;
    // Two more than the batch: a batch-norm that trains waits for them.
    const train::Rows rows = rows_of(c, batch + 2, classes, records);
    const Work work = work_of(prepared);
    TrainingCost cost;
    cost.fixed_bytes = fixed_bytes(work, options);
    {
      const model::PeakMemory memory;
      trainer.feed(rows);
      cost.record_bytes = std::max(static_cast<double>(memory.peak_bytes()) - work.parameters, 0.0) /
                          static_cast<double>(batch);
    }
    const Stopwatch watch;
    const std::int64_t before = trainer.steps();
    trainer.feed(rows);
    const std::int64_t steps = std::max<std::int64_t>(trainer.steps() - before, 1);
    cost.seconds = watch.seconds() / static_cast<double>(steps * batch);
    return cost;
  }

  train::Rows rows_of(std::size_t c, std::int64_t count, std::int64_t classes,
                      std::deque<train::RecordInfo> &records) {
    train::Rows rows;
    for (const at::Tensor &value : values_of(c, count)) rows.values.push_back(value);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < count; ++i) {
      records.push_back({hash_text(std::to_string(i)), i % classes, std::to_string(i)});
      rows.records.push_back(&records.back());
      rows.positions.push_back(i);
      labels.push_back(i % classes);
    }
    rows.labels = at::tensor(labels, at::kLong);
    return rows;
  }

  /// What the frozen layers give for made-up records, kept for the next candidate that reads it.
  std::vector<at::Tensor> values_of(std::size_t c, std::int64_t count) {
    const SharedGraph &graph = graphs_.graphs[graphs_.of[c]];
    const std::vector<graph::ValueId> &reads = graphs_.reads[c];
    std::vector<at::Tensor> &made = made_[{graphs_.of[c], reads}];
    if (made.empty() || made[0].size(0) < count) {
      made = {profile::random_records(graph.merged->model().input(), count)};
      if (reads != std::vector<graph::ValueId>{0})
        made = model::FrozenProgram(graph.merged->model(), {0}, reads).run(made);
    }
    std::vector<at::Tensor> values;
    for (const at::Tensor &value : made) values.push_back(value.narrow(0, 0, count));
    return values;
  }

  const SharedGraphs &graphs_;
  const std::vector<Candidate> &candidates_;
  std::map<std::pair<std::size_t, std::vector<graph::ValueId>>, std::vector<at::Tensor>> made_;
};

} // namespace

bool measure_training(Costs &costs, const SharedGraphs &graphs, const std::vector<Candidate> &candidates,
                      double seconds) {
  Steps steps(graphs, candidates);
  using Kind = std::tuple<const Prepared *, std::int64_t, train::OptimizerKind>;
  std::map<Kind, TrainingCost> known;
  const Stopwatch watch;
  double timed = 0, flops = 0;
  bool missing = false;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Candidate &candidate = candidates[c];
    if (costs.training.count(candidate.id) > 0) continue;
    check_interrupt();
    missing = true;
    const train::TrainOptions &options = candidate.spec.options;
    const auto [found, added] =
        known.emplace(Kind{candidate.prepared.get(), options.batch, options.optimizer}, TrainingCost{});
    if (added) {
      const Work work = work_of(*candidate.prepared);
      std::optional<TrainingCost> cost;
      if (watch.seconds() < seconds || flops == 0) cost = steps.measure(c);
      if (cost) {
        timed += cost->seconds;
        flops += std::max(work.flops, 1.0);
      }
      found->second = cost.value_or(TrainingCost{work.flops * timed / std::max(flops, 1.0),
                                                 fixed_bytes(work, options), 2 * work.bytes});
    }
    costs.training[candidate.id] = found->second;
  }
  return missing;
}

} // namespace tl::select
