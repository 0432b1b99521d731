// What each node costs on one host, from the profile of the pretrained network.
#pragma once

#include "plan/profile.h"

namespace tl::plan {

/// Times and memory of the nodes of a graph that apply_scheme made, in the order of that graph.
/// Nodes are matched to the profiled graph by the hash of their first output. Nodes of a segment
/// share its time in proportion to their FLOPs plus the bytes that they touch. Nodes that are not in
/// the profile (a new head) cost their FLOPs at the host's matrix speed, three times if they train:
/// once forward, twice backward.
class NodeCosts {
public:
  NodeCosts(const ModelProfile &model, const HostProfile &host, const graph::Graph &graph);

  /// Seconds that all cores of the host need for nodes [0, position), frozen, on a whole batch.
  double prefix_seconds(int position, std::int64_t batch) const;
  /// Seconds for one training step over nodes [position, end): frozen ones forward only, the others
  /// forward and backward.
  double step_seconds(int position, std::int64_t batch) const;

  /// Bytes to run nodes [0, position) frozen: their parameters and the tensors at the worst moment.
  std::int64_t prefix_memory(int position, std::int64_t batch) const;
  /// Bytes to train nodes [position, end): parameters, gradients and two moments of those that train,
  /// and the outputs kept for the backward pass.
  std::int64_t step_memory(int position, std::int64_t batch) const;

  /// The batch sizes that were measured.
  const std::vector<std::int64_t> &batches() const { return batches_; }

private:
  using Table = std::vector<std::vector<double>>; // [measured batch][position]
  double interpolate(const Table &table, std::size_t position, std::int64_t batch) const;
  void add_memory(const graph::Graph &graph, const std::vector<bool> &frozen,
                  const std::vector<std::vector<double>> &peaks);

  std::vector<std::int64_t> batches_;
  Table prefix_;                          // sums over [0, position)
  Table step_;                            // sums over [position, end)
  Table prefix_peak_, step_peak_;         // largest over the same ranges
  std::vector<double> prefix_parameters_; // bytes
  std::vector<double> step_parameters_;   // bytes, with gradients and moments
  std::vector<double> kept_;              // bytes a record, for the backward pass
};

} // namespace tl::plan
