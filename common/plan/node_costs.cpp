#include "plan/node_costs.h"

#include "cli/error.h"
#include "graph/flops.h"
#include "graph/scheme.h"
#include "runtime/at.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tl::plan {

namespace {

/// One node at each measured batch size.
struct NodeCost {
  std::vector<double> forward, suffix, train, peak; // forward: in a prefix
};

double bytes_of(const graph::Value &value) {
  return value.kind == graph::ValueKind::tensor ? static_cast<double>(value.bytes()) : 0;
}

std::vector<double> scaled(const std::vector<double> &values, double factor) {
  std::vector<double> result = values;
  for (double &value : result) value *= factor;
  return result;
}

/// Spreads the segments of a profile over their nodes. `scale` turns measured seconds into seconds
/// of the whole host.
std::vector<NodeCost> measured_costs(const ModelProfile &model, double scale) {
  const std::size_t batches = model.measured.batches.size();
  const std::vector<double> zero(batches, 0.0);
  std::vector<NodeCost> costs(model.graph.nodes.size(), NodeCost{zero, zero, zero, zero});
  for (const Segment &segment : model.measured.segments) {
    const auto count = static_cast<std::size_t>(segment.last - segment.first);
    std::vector<double> weights(count);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      weights[i] = graph::work(model.graph, model.graph.nodes[at(segment.first) + i]);
      sum += weights[i];
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double share = scale * (sum > 0 ? weights[i] / sum : 1.0 / static_cast<double>(count));
      NodeCost &cost = costs[at(segment.first) + i];
      cost.forward = scaled(segment.seconds, share);
      cost.suffix = segment.suffix_seconds.empty() ? cost.forward : scaled(segment.suffix_seconds, share);
      // Without a measurement: the backward pass costs twice the forward pass.
      cost.train =
          segment.train_seconds.empty() ? scaled(cost.forward, 3) : scaled(segment.train_seconds, share);
      cost.peak.assign(segment.peak_bytes.begin(), segment.peak_bytes.end());
    }
  }
  return costs;
}

/// A node that nobody measured, because the scheme added it.
NodeCost estimated_cost(const graph::Graph &graph, const graph::Node &node,
                        const std::vector<std::int64_t> &batches, double flops_per_second) {
  NodeCost cost;
  const double record = graph::flops(graph, node) / flops_per_second;
  double bytes = 0;
  for (const graph::Operand &operand : node.inputs)
    if (operand.kind == graph::Operand::Kind::value) bytes += bytes_of(graph.values[at(operand.index)]);
  for (const graph::ValueId out : node.outputs) bytes += bytes_of(graph.values[at(out)]);
  for (const std::int64_t batch : batches) {
    cost.forward.push_back(record * static_cast<double>(batch));
    cost.suffix.push_back(cost.forward.back());
    cost.train.push_back(3 * cost.forward.back());
    cost.peak.push_back(bytes * static_cast<double>(batch));
  }
  return cost;
}

/// Far more than any machine has stands for all that is more.
std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::min(bytes, 9007199254740991.0));
}

} // namespace

NodeCosts::NodeCosts(const ModelProfile &model, const HostProfile &host, const graph::Graph &graph)
    : batches_(model.measured.batches) {
  if (batches_.empty()) throw FormatError("the profile of the model has no measurement");
  if (host.blas.gflops <= 0) throw FormatError("the profile of the host has no matrix speed");
  // With fewer threads than cores, several workers run side by side.
  const double scale = static_cast<double>(model.measured.threads) / host.cores;
  const std::vector<NodeCost> measured = measured_costs(model, std::min(scale, 1.0));
  // By hash, not by name: the other side's file may name the same values differently.
  std::unordered_map<Digest, std::size_t> by_hash;
  for (std::size_t n = 0; n < model.graph.nodes.size(); ++n)
    for (const graph::ValueId out : model.graph.nodes[n].outputs)
      by_hash.emplace(model.graph.values[at(out)].hash, n);

  const std::vector<bool> frozen = graph::frozen(graph);
  const std::size_t nodes = graph.nodes.size();
  prefix_.assign(batches_.size(), std::vector<double>(nodes + 1, 0.0));
  step_ = prefix_;
  std::vector<std::vector<double>> peaks(batches_.size(), std::vector<double>(nodes, 0.0));
  for (std::size_t n = 0; n < nodes; ++n) {
    const graph::Node &node = graph.nodes[n];
    const auto found = by_hash.find(graph.values[at(node.outputs[0])].hash);
    const NodeCost cost = found != by_hash.end()
                              ? measured[found->second]
                              : estimated_cost(graph, node, batches_, host.blas.gflops * 1e9);
    const bool trains = !frozen[at(node.outputs[0])];
    for (std::size_t k = 0; k < batches_.size(); ++k) {
      prefix_[k][n + 1] = prefix_[k][n] + cost.forward[k];
      step_[k][n] = trains ? cost.train[k] : cost.suffix[k];
      peaks[k][n] = cost.peak[k];
    }
  }
  for (std::vector<double> &sums : step_)
    for (std::size_t n = nodes; n-- > 0;) sums[n] += sums[n + 1];
  add_memory(graph, frozen, peaks);
}

void NodeCosts::add_memory(const graph::Graph &graph, const std::vector<bool> &frozen,
                           const std::vector<std::vector<double>> &peaks) {
  const std::size_t nodes = graph.nodes.size();
  prefix_peak_.assign(batches_.size(), std::vector<double>(nodes + 1, 0.0));
  step_peak_ = prefix_peak_;
  const double input = bytes_of(graph.values[0]);
  for (std::size_t k = 0; k < batches_.size(); ++k) {
    const double batch = input * static_cast<double>(batches_[k]);
    prefix_peak_[k][0] = batch;
    for (std::size_t n = 0; n < nodes; ++n)
      prefix_peak_[k][n + 1] = std::max(prefix_peak_[k][n], peaks[k][n]);
    for (std::size_t n = nodes; n-- > 0;) step_peak_[k][n] = std::max(step_peak_[k][n + 1], peaks[k][n]);
  }
  prefix_parameters_.assign(nodes + 1, 0.0);
  step_parameters_ = kept_ = prefix_parameters_;
  const auto parameter_bytes = [&](const graph::Node &node, std::unordered_set<int> &seen, bool training) {
    double bytes = 0;
    for (const graph::Operand &operand : node.inputs) {
      if (operand.kind != graph::Operand::Kind::parameter || !seen.insert(operand.index).second) continue;
      const graph::Parameter &parameter = graph.parameters[at(operand.index)];
      // A parameter that trains has a gradient and up to two moments of the optimiser beside it.
      bytes += static_cast<double>(parameter.bytes()) * (training && parameter.trainable ? 4 : 1);
    }
    return bytes;
  };
  std::unordered_set<int> before, after;
  for (std::size_t n = 0; n < nodes; ++n)
    prefix_parameters_[n + 1] = prefix_parameters_[n] + parameter_bytes(graph.nodes[n], before, false);
  for (std::size_t n = nodes; n-- > 0;) {
    const graph::Node &node = graph.nodes[n];
    step_parameters_[n] = step_parameters_[n + 1] + parameter_bytes(node, after, true);
    kept_[n] = kept_[n + 1];
    for (const graph::ValueId out : node.outputs)
      if (!frozen[at(out)]) kept_[n] += 2 * bytes_of(graph.values[at(out)]); // and its gradient
  }
}

/// Linear in the batch between measurements; beyond them at the rate of the nearest one.
double NodeCosts::interpolate(const Table &table, std::size_t position, std::int64_t batch) const {
  const auto b = static_cast<double>(batch);
  const auto upper = std::lower_bound(batches_.begin(), batches_.end(), batch) - batches_.begin();
  const auto k = static_cast<std::size_t>(upper);
  const auto value = [&](std::size_t i) { return table[i][position]; };
  const auto size = [&](std::size_t i) { return static_cast<double>(batches_[i]); };
  if (k == batches_.size()) return value(k - 1) * b / size(k - 1);
  if (k == 0 || batches_[k] == batch) return value(k) * b / size(k);
  return value(k - 1) + (value(k) - value(k - 1)) * (b - size(k - 1)) / (size(k) - size(k - 1));
}

double NodeCosts::prefix_seconds(int position, std::int64_t batch) const {
  return interpolate(prefix_, at(position), batch);
}

double NodeCosts::step_seconds(int position, std::int64_t batch) const {
  return interpolate(step_, at(position), batch);
}

std::int64_t NodeCosts::prefix_memory(int position, std::int64_t batch) const {
  return whole_bytes(prefix_parameters_[at(position)] + interpolate(prefix_peak_, at(position), batch));
}

std::int64_t NodeCosts::step_memory(int position, std::int64_t batch) const {
  const double activations = std::max(interpolate(step_peak_, at(position), batch),
                                      kept_[at(position)] * static_cast<double>(batch));
  return whole_bytes(step_parameters_[at(position)] + activations);
}

} // namespace tl::plan
