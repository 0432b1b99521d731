#include "graph/cut.h"

#include "cli/error.h"
#include "runtime/at.h"

#include <algorithm>
#include <set>

namespace tl::graph {

namespace {

/// Number of leading nodes that may run on the storage side: frozen, and before the output's node.
int last_position(const Graph &graph, const std::vector<bool> &frozen) {
  int position = 0;
  while (graph.output != 0 && position < static_cast<int>(graph.nodes.size())) {
    const Node &node = graph.nodes[at(position)];
    const bool runs = std::all_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId id) { return frozen[at(id)] && id != graph.output; });
    if (!runs) break;
    ++position;
  }
  return position;
}

bool can_cross(const Value &value) { return value.kind == ValueKind::tensor && value.batched; }

/// For each value, the position after which nobody reads it (the graph's end for the output).
std::vector<int> last_reads(const Graph &graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const Operand &operand : graph.nodes[n].inputs)
      if (operand.kind == Operand::Kind::value) last[at(operand.index)] = static_cast<int>(n);
  last[at(graph.output)] = static_cast<int>(graph.nodes.size());
  return last;
}

std::vector<std::string> split_name(const std::string &name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '+')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// True if the output can be computed from `values` and what needs no input.
bool separates(const Graph &graph, const std::vector<ValueId> &values) {
  std::vector<bool> known = depends_on_input(graph);
  known.flip();
  for (const ValueId id : values) known[at(id)] = true;
  for (const Node &node : graph.nodes) {
    const bool computable = std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Operand &operand) {
      return operand.kind != Operand::Kind::value || known[at(operand.index)];
    });
    if (computable)
      for (const ValueId out : node.outputs) known[at(out)] = true;
  }
  return known[at(graph.output)];
}

/// Up to three legal cuts that contain one of `values`, to help the user.
std::string similar_cuts(const Graph &graph, const std::vector<Cut> &cuts,
                         const std::vector<ValueId> &values) {
  std::string text;
  int found = 0;
  for (const Cut &cut : cuts) {
    const bool shares = std::any_of(values.begin(), values.end(), [&](ValueId id) {
      return std::count(cut.values.begin(), cut.values.end(), id) > 0;
    });
    if (shares && found++ < 3) text += (text.empty() ? "; possible: " : ", ") + cut.name(graph);
  }
  return text.empty() && !cuts.empty() ? "; the deepest possible cut is " + cuts.back().name(graph) : text;
}

} // namespace

std::string Cut::name(const Graph &graph) const {
  std::string text;
  for (const ValueId id : values) text += (text.empty() ? "" : "+") + graph.values[at(id)].name;
  return text;
}

std::vector<Cut> enumerate_cuts(const Graph &graph, const std::vector<bool> &frozen) {
  const std::vector<bool> depends = depends_on_input(graph);
  const std::vector<int> last = last_reads(graph);
  const int end = last_position(graph, frozen);
  std::vector<Cut> cuts;
  std::set<std::vector<ValueId>> seen;
  std::vector<ValueId> live; // in order of definition
  if (depends[0]) live.push_back(0);
  for (int position = 0; position <= end; ++position) {
    if (position > 0)
      for (const ValueId out : graph.nodes[at(position - 1)].outputs)
        if (depends[at(out)]) live.push_back(out);
    live.erase(std::remove_if(live.begin(), live.end(), [&](ValueId id) { return last[at(id)] < position; }),
               live.end());
    const bool legal = !live.empty() && std::all_of(live.begin(), live.end(), [&](ValueId id) {
      return can_cross(graph.values[at(id)]);
    });
    if (!legal || !seen.insert(live).second) continue;
    Cut cut{position, live, 0};
    for (const ValueId id : live) cut.bytes += graph.values[at(id)].bytes();
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

Cut find_cut(const Graph &graph, const std::vector<bool> &frozen, const std::string &name) {
  std::vector<ValueId> wanted;
  for (const std::string &part : split_name(name)) {
    try {
      wanted.push_back(graph.find(part));
    } catch (const Error &error) {
      throw UsageError("cut '" + name + "': " + error.what());
    }
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  const std::vector<Cut> cuts = enumerate_cuts(graph, frozen);
  for (const Cut &cut : cuts) {
    std::vector<ValueId> values = cut.values;
    std::sort(values.begin(), values.end());
    if (values == wanted) return cut;
  }
  const std::vector<bool> depends = depends_on_input(graph);
  for (const ValueId id : wanted) {
    const Value &value = graph.values[at(id)];
    const std::string who = "cut '" + name + "': '" + value.name + "' ";
    if (!frozen[at(id)])
      throw UsageError(who + "depends on parameters that are trained" + similar_cuts(graph, cuts, {}));
    if (!can_cross(value)) throw UsageError(who + "is not a tensor with one row per record");
    if (!depends[at(id)]) throw UsageError(who + "does not depend on the input");
  }
  const std::string why = separates(graph, wanted)
                              ? "no point of the program has exactly these values to pass on"
                              : "it does not separate the input from the output";
  throw UsageError("cut '" + name + "': " + why + similar_cuts(graph, cuts, wanted));
}

Cut deepest_cut(const Graph &graph, const std::vector<bool> &frozen) {
  std::vector<Cut> cuts = enumerate_cuts(graph, frozen);
  if (cuts.empty())
    throw Error("the model cannot be cut: its output does not depend on a tensor of the records");
  return std::move(cuts.back());
}

} // namespace tl::graph
