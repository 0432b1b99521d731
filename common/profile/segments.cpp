#include "profile/segments.h"

#include "cli/error.h"
#include "graph/flops.h"
#include "runtime/at.h"

#include <string_view>

namespace tl::profile {

namespace {

/// The last legal cut after node `after` and not after node `before`, with one tensor if there is one.
const graph::Cut *last_cut(const std::vector<graph::Cut> &cuts, int after, int before) {
  const graph::Cut *best = nullptr;
  for (const graph::Cut &cut : cuts)
    if (cut.position > after && cut.position <= before &&
        (!best || cut.values.size() == 1 || best->values.size() > 1))
      best = &cut;
  return best;
}

} // namespace

bool works(const graph::Node &node) {
  for (const std::string_view part : {"conv", "linear", "mm", "matmul", "attention", "encoder_layer"})
    if (node.op.find(part) != std::string::npos) return true;
  return false;
}

std::vector<graph::Cut> choose_borders(const graph::Graph &graph) {
  const std::vector<bool> all(graph.values.size(), true);
  const std::vector<graph::Cut> cuts = graph::enumerate_cuts(graph, all);
  if (cuts.empty() || cuts.front().position != 0)
    throw Error("the model cannot be profiled: its input is not a tensor of records");
  std::vector<double> work(1, 0.0); // of the nodes before each position
  for (const graph::Node &node : graph.nodes) work.push_back(work.back() + graph::flops(graph, node));

  std::vector<graph::Cut> borders = {cuts.front()};
  const graph::Cut *several = nullptr; // the latest border of several tensors that was passed by
  // The segment that is open would reach to `position` at least.
  const auto extend = [&](int position) {
    const double share = work[at(position)] - work[at(borders.back().position)];
    if (several && share > work.back() / 6) borders.push_back(*several);
    several = nullptr;
  };
  int previous = -1; // the last node that works
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    if (!works(graph.nodes[at(n)])) continue;
    const graph::Cut *cut = last_cut(cuts, previous, n);
    previous = n;
    const bool single = cut && cut->values.size() == 1;
    extend(single ? cut->position : n + 1);
    if (!cut || cut->position <= borders.back().position) continue;
    if (single)
      borders.push_back(*cut);
    else
      several = cut;
  }
  extend(static_cast<int>(graph.nodes.size()));
  const graph::Value &output = graph.values[at(graph.output)];
  const graph::Cut end{static_cast<int>(graph.nodes.size()), {graph.output}, output.bytes()};
  if (end.position > 0 && borders.back().position < end.position) borders.push_back(end);
  return borders;
}

} // namespace tl::profile
