// Private to common/reuse: the minimum cut of a small network.
#pragma once

#include <cstdint>
#include <vector>

namespace tl::reuse {

/// Dinic's algorithm, with integer capacities so that it always ends.
class MinCut {
public:
  static constexpr std::int64_t kInfinite = INT64_MAX / 4;

  explicit MinCut(int nodes) : edges_of_(static_cast<std::size_t>(nodes)) {}
  void add(int from, int to, std::int64_t capacity);
  /// For each node, true if it is on the source's side.
  std::vector<bool> solve(int source, int sink);

private:
  struct Edge {
    int to;
    std::int64_t capacity; // that is left
  };
  bool layer(int source, int sink);
  std::int64_t push(int node, int sink, std::int64_t limit);

  std::vector<Edge> edges_; // an edge and its reverse are neighbours
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> depth_;
  std::vector<std::size_t> next_;
};

} // namespace tl::reuse
