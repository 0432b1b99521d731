#include "profile/executions.h"

#include "cli/error.h"
#include "model/program.h"
#include "profile/deviation.h"
#include "profile/records.h"
#include "runtime/clock.h"

#include <torch/torch.h>

#include <algorithm>
#include <memory>

namespace tl::profile {

namespace {

using graph::Execution;
using Tensors = std::vector<at::Tensor>;

constexpr double kExact = 1e-4; // relative error that the order of sums explains
constexpr double kNoise = 0.03; // share of the time by which two measurements of the same thing may differ
constexpr int kMostTurns = 5;

bool has_maps(const graph::Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const graph::Node &node) { return node.op.find("conv") != std::string::npos; });
}

double rms_error(const Tensors &values, const Tensors &wanted) {
  double worst = 0; // of the values that cross a cut together
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, deviation(values[i], wanted[i]).rms);
  return worst;
}

struct Trial {
  plan::ExecutionCost cost;
  model::FrozenProgram program;
};

/// Makes and runs a program once, which also fills its caches.
std::unique_ptr<Trial> first_run(const model::Model &model, const std::vector<graph::ValueId> &outputs,
                                 Execution execution, const Tensors &records, Tensors &wanted,
                                 std::vector<std::string> &notes) {
  check_interrupt();
  const std::string name = "execution " + std::string(name_of(execution));
  try {
    auto trial = std::make_unique<Trial>(Trial{{execution, 0, 0}, {model, {0}, outputs, execution}});
    const Tensors values = trial->program.run(records);
    if (execution == Execution::blocked) wanted = values;
    trial->cost.rms_error = rms_error(values, wanted);
    if (!graph::exact(execution) || trial->cost.rms_error <= kExact) return trial;
    notes.push_back(name + " left out: this LibTorch computes something else with it");
  } catch (const Interrupted &) {
    throw;
  } catch (const Error &error) {
    if (execution == Execution::blocked) throw;
    notes.push_back(name + " left out: " + error.what());
  }
  return nullptr;
}

} // namespace

std::vector<plan::ExecutionCost> measure_executions(const model::Model &model,
                                                    const std::vector<graph::ValueId> &outputs,
                                                    const ExecutionOptions &options,
                                                    std::vector<std::string> &notes) {
  const Tensors records = {random_records(model.input(), options.batch)};
  Tensors wanted;
  std::vector<std::unique_ptr<Trial>> trials;
  for (const Execution execution : graph::kExecutions) {
    if (execution == Execution::bf16 && !options.allow_bf16) continue;
    if (execution == Execution::channels_last && !has_maps(model.graph)) continue;
    if (auto trial = first_run(model, outputs, execution, records, wanted, notes))
      trials.push_back(std::move(trial));
  }
  const Stopwatch watch;
  for (int round = 0; round == 0 || (round < kMostTurns && watch.seconds() < options.seconds); ++round)
    for (const auto &trial : trials) {
      check_interrupt();
      const Stopwatch run;
      trial->program.run(records);
      const double seconds = run.seconds() / static_cast<double>(options.batch);
      trial->cost.seconds = round == 0 ? seconds : std::min(trial->cost.seconds, seconds);
    }
  std::vector<plan::ExecutionCost> costs;
  for (const auto &trial : trials) costs.push_back(trial->cost);
  return costs;
}

Execution fastest(const std::vector<plan::ExecutionCost> &costs) {
  const auto best = std::min_element(costs.begin(), costs.end(),
                                     [](const auto &a, const auto &b) { return a.seconds < b.seconds; });
  return best->seconds < (1 - kNoise) * costs.front().seconds ? best->execution : costs.front().execution;
}

} // namespace tl::profile
