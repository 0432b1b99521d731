#include "reuse/min_cut.h"

#include "runtime/at.h"

#include <algorithm>

namespace tl::reuse {

void MinCut::add(int from, int to, std::int64_t capacity) {
  edges_of_[at(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[at(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::layer(int source, int sink) {
  depth_.assign(edges_of_.size(), -1);
  depth_[at(source)] = 0;
  std::vector<int> queue = {source};
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (const int e : edges_of_[at(queue[i])]) {
      const Edge &edge = edges_[at(e)];
      if (edge.capacity == 0 || depth_[at(edge.to)] >= 0) continue;
      depth_[at(edge.to)] = depth_[at(queue[i])] + 1;
      queue.push_back(edge.to);
    }
  return depth_[at(sink)] >= 0;
}

std::int64_t MinCut::push(int node, int sink, std::int64_t limit) {
  if (node == sink) return limit;
  for (std::size_t &i = next_[at(node)]; i < edges_of_[at(node)].size(); ++i) {
    const int e = edges_of_[at(node)][i];
    const Edge edge = edges_[at(e)];
    if (edge.capacity == 0 || depth_[at(edge.to)] != depth_[at(node)] + 1) continue;
    const std::int64_t pushed = push(edge.to, sink, std::min(limit, edge.capacity));
    if (pushed == 0) continue;
    edges_[at(e)].capacity -= pushed;
    edges_[at(e ^ 1)].capacity += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> MinCut::solve(int source, int sink) {
  while (layer(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    while (push(source, sink, kInfinite) > 0) {
    }
  }
  std::vector<bool> side;
  for (const int depth : depth_) side.push_back(depth >= 0);
  return side;
}

} // namespace tl::reuse
