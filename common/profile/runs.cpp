#include "profile/runs.h"

#include "graph/flops.h"
#include "profile/segments.h"
#include "runtime/at.h"

#include <algorithm>

namespace tl::profile {

namespace {

bool can_cross(const graph::Value &value) { return value.kind == graph::ValueKind::tensor && value.batched; }

/// For each value, the last node that reads it; -1: nobody.
std::vector<int> last_reads(const graph::Graph &graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const graph::Operand &operand : graph.nodes[n].inputs)
      if (operand.kind == graph::Operand::Kind::value) last[at(operand.index)] = static_cast<int>(n);
  return last;
}

/// For each position between nodes, whether a run may end there.
std::vector<bool> borders(const graph::Graph &graph, const std::vector<bool> &depends,
                          const std::vector<int> &last) {
  std::vector<int> stuck(graph.nodes.size() + 2, 0); // changes of the number of values that must not cross
  for (std::size_t v = 1; v < graph.values.size(); ++v) {
    const graph::Value &value = graph.values[v];
    if (!depends[v] || can_cross(value) || last[v] < 0) continue;
    ++stuck[at(value.node) + 1];
    --stuck[at(last[v]) + 1];
  }
  std::vector<bool> legal;
  int now = 0;
  for (std::size_t p = 0; p <= graph.nodes.size(); ++p) {
    now += stuck[p];
    legal.push_back(now == 0);
  }
  return legal;
}

/// The values that go into and out of a run.
void connect(const graph::Graph &graph, Run &run, const std::vector<bool> &depends,
             const std::vector<int> &last, const std::vector<bool> &wanted) {
  for (int n = run.first; n < run.last; ++n) {
    const graph::Node &node = graph.nodes[at(n)];
    for (const graph::Operand &operand : node.inputs) {
      if (operand.kind != graph::Operand::Kind::value || !depends[at(operand.index)]) continue;
      if (graph.values[at(operand.index)].node < run.first) run.inputs.push_back(operand.index);
    }
    for (const graph::ValueId out : node.outputs)
      if (depends[at(out)] && (last[at(out)] >= run.last || wanted[at(out)])) run.outputs.push_back(out);
  }
  std::sort(run.inputs.begin(), run.inputs.end());
  run.inputs.erase(std::unique(run.inputs.begin(), run.inputs.end()), run.inputs.end());
}

} // namespace

std::vector<Run> choose_runs(const graph::Graph &graph, const std::vector<graph::ValueId> &wanted,
                             std::size_t most) {
  const std::vector<bool> depends = graph::depends_on_input(graph);
  const std::vector<int> last = last_reads(graph);
  const std::vector<bool> legal = borders(graph, depends, last);
  std::vector<bool> is_wanted(graph.values.size());
  for (const graph::ValueId id : wanted) is_wanted[at(id)] = true;
  double all = 0;
  for (const graph::Node &node : graph.nodes) all += graph::work(graph, node);
  std::vector<Run> runs;
  Run run;
  const int nodes = static_cast<int>(graph.nodes.size());
  for (int n = 0; n < nodes; ++n) {
    run.work += graph::work(graph, graph.nodes[at(n)]);
    run.last = n + 1;
    const bool enough =
        run.work >= all / static_cast<double>(most) && works(graph.nodes[at(std::min(n + 1, nodes - 1))]);
    if (n + 1 < nodes && !(enough && legal[at(n + 1)])) continue;
    connect(graph, run, depends, last, is_wanted);
    if (!run.outputs.empty()) runs.push_back(run);
    run = {};
    run.first = n + 1;
  }
  return runs;
}

} // namespace tl::profile
