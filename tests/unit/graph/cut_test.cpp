#include "graph/cut.h"

#include "cli/error.h"
#include "graph/scheme.h"
#include "support/graphs.h"

#include <doctest/doctest.h>

#include <set>

using namespace tl;
using namespace tl::test;

namespace {

std::vector<std::string> names(const Graph &graph, const std::vector<graph::Cut> &cuts) {
  std::vector<std::string> result;
  for (const graph::Cut &cut : cuts) result.push_back(cut.name(graph));
  return result;
}

std::vector<bool> all_frozen(const Graph &graph) { return std::vector<bool>(graph.values.size(), true); }

std::vector<std::string> all_cuts(const Graph &graph) {
  return names(graph, graph::enumerate_cuts(graph, all_frozen(graph)));
}

using Names = std::vector<std::string>;
bool has(const Names &list, const std::string &name) {
  return std::count(list.begin(), list.end(), name) > 0;
}

/// True if nodes [position, end) can compute the output from `given` and from what needs no input.
bool computable(const Graph &graph, int position, const std::set<ValueId> &given) {
  const std::vector<bool> depends = graph::depends_on_input(graph);
  std::set<ValueId> known = given;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node &node = graph.nodes[n];
    const bool independent = !depends[static_cast<std::size_t>(node.outputs[0])];
    if (static_cast<int>(n) < position && !independent) continue;
    for (const Operand &operand : node.inputs)
      if (operand.kind == Operand::Kind::value && !known.count(operand.index)) return false;
    known.insert(node.outputs.begin(), node.outputs.end());
  }
  return known.count(graph.output) > 0;
}

/// The smallest set of values from before `position` that the rest needs, by trying every subset.
std::set<ValueId> smallest_cut(const Graph &graph, int position) {
  std::vector<ValueId> before = {0};
  for (int n = 0; n < position; ++n)
    for (const ValueId out : graph.nodes[static_cast<std::size_t>(n)].outputs) before.push_back(out);
  std::set<ValueId> best;
  bool found = false;
  for (unsigned subset = 0; subset < 1U << before.size(); ++subset) {
    std::set<ValueId> values;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (subset >> i & 1) values.insert(before[i]);
    if ((found && values.size() >= best.size()) || !computable(graph, position, values)) continue;
    best = values;
    found = true;
  }
  return best;
}

} // namespace

TEST_CASE("a chain is cut at each of its values") {
  CHECK(all_cuts(chain()) == Names{"input", "conv1", "relu1", "conv2", "relu2", "avgpool", "flatten"});
}

TEST_CASE("inside a residual block the shortcut crosses too") {
  const Graph graph = residual();
  const Names cuts = all_cuts(graph);
  CHECK(has(cuts, "relu"));
  CHECK(has(cuts, "layer1"));
  CHECK(has(cuts, "relu+layer1.conv1"));
  CHECK(has(cuts, "layer1+layer2.conv2"));
  CHECK(has(cuts, "layer2.conv2+layer2.downsample"));
  CHECK_FALSE(has(cuts, "layer1.conv1"));
  for (const graph::Cut &cut : graph::enumerate_cuts(graph, all_frozen(graph))) {
    std::int64_t bytes = 0;
    for (const ValueId id : cut.values) bytes += graph.values[static_cast<std::size_t>(id)].bytes();
    CHECK(cut.bytes == bytes);
  }
}

TEST_CASE("a dense block is cut across all of its layers, never at a list of tensors") {
  const Names cuts = all_cuts(dense());
  CHECK(has(cuts, "conv0+layer1"));
  CHECK(has(cuts, "conv0+layer1+cat1"));
  CHECK(has(cuts, "conv0+layer1+layer2"));
  CHECK(has(cuts, "cat2"));
  for (const std::string &name : cuts) CHECK(name.find("list") == std::string::npos);
}

TEST_CASE("numbers cannot cross; a class token joins the sequence first") {
  const Names cuts = all_cuts(transformer(true));
  CHECK(has(cuts, "embed"));
  CHECK(has(cuts, "cat"));
  CHECK(has(cuts, "norm"));
  for (const std::string &name : cuts) CHECK(name.find("size") == std::string::npos);
}

TEST_CASE("values that do not depend on the input never cross") {
  GraphBuilder b({4});
  const ValueId weight = b.add("aten::t", {b.parameter("w", {4, 4})}, "transposed", {4, 4});
  b.at(weight).batched = false;
  const ValueId x = b.relu(0, "x");
  b.add("aten::matmul", {Operand::of_value(x), Operand::of_value(weight)}, "y", {4});
  CHECK(all_cuts(b.done()) == Names{"input", "x"});
}

TEST_CASE("a tensor without one row per record, or of another kind, makes its positions illegal") {
  GraphBuilder b({4});
  const ValueId x = b.relu(0, "x");
  const ValueId windows = b.add("aten::view", {Operand::of_value(x)}, "windows", {2, 2});
  b.at(windows).batched = false;
  b.relu(windows, "y");
  CHECK(all_cuts(b.done()) == Names{"input", "x"});
}

TEST_CASE("the output is never before the cut") {
  GraphBuilder b({4});
  const ValueId x = b.relu(0, "x");
  const ValueId y = b.relu(x, "y");
  b.relu(y, "dead");
  b.raw().output = y;
  CHECK(all_cuts(b.done()) == Names{"input", "x"});
  b.raw().output = 0;
  CHECK(all_cuts(b.raw()) == Names{"input"});
}

TEST_CASE("nothing after the first trained node is on the storage side") {
  Graph graph = residual();
  for (graph::Parameter &parameter : graph.parameters)
    parameter.trainable = parameter.name == "layer2.conv1.weight";
  const std::vector<bool> frozen = graph::frozen(graph);
  CHECK(graph::deepest_cut(graph, frozen).name(graph) == "layer1");
  CHECK(names(graph, graph::enumerate_cuts(graph, frozen)).back() == "layer1");
}

TEST_CASE("on random graphs each cut is the smallest set that separates, and none is missing") {
  std::mt19937 random(4);
  std::size_t compared = 0;
  for (int round = 0; round < 400; ++round) {
    Graph graph = random_dag(random, 3 + round % 6, true);
    for (graph::Parameter &parameter : graph.parameters) parameter.trainable = random() % 4 == 0;
    const std::vector<bool> frozen = graph::frozen(graph);
    if (!graph::depends_on_input(graph)[static_cast<std::size_t>(graph.output)]) continue;
    std::set<std::set<ValueId>> expected;
    for (int position = 0; position < static_cast<int>(graph.nodes.size()); ++position) {
      if (position > 0 &&
          !frozen[static_cast<std::size_t>(graph.nodes[static_cast<std::size_t>(position) - 1].outputs[0])])
        break;
      expected.insert(smallest_cut(graph, position));
    }
    std::set<std::set<ValueId>> found;
    for (const graph::Cut &cut : graph::enumerate_cuts(graph, frozen)) {
      const std::set<ValueId> values(cut.values.begin(), cut.values.end());
      CHECK(values == smallest_cut(graph, cut.position));
      CHECK(found.insert(values).second); // each once
      CHECK(graph::find_cut(graph, frozen, cut.name(graph)).position == cut.position);
      ++compared;
    }
    CHECK(found == expected);
  }
  CHECK(compared > 1000);
}

TEST_CASE("a cut is found by names in any order and by aliases") {
  Graph graph = residual();
  graph.values[static_cast<std::size_t>(graph.find("layer2.conv2"))].aliases = {"alias"};
  const graph::Cut cut = graph::find_cut(graph, all_frozen(graph), "alias+layer1");
  CHECK(cut.name(graph) == "layer1+layer2.conv2");
  CHECK(graph::find_cut(graph, all_frozen(graph), "input").position == 0);
}

TEST_CASE("a cut that is not possible says why and what is") {
  Graph graph = residual();
  for (graph::Parameter &parameter : graph.parameters)
    parameter.trainable = parameter.name.rfind("fc", 0) == 0;
  const std::vector<bool> frozen = graph::frozen(graph);
  const auto refused = [&](const std::string &name, const char *why) {
    CHECK_THROWS_WITH_AS(graph::find_cut(graph, frozen, name), doctest::Contains(why), UsageError);
  };
  refused("layer7", "did you mean 'layer1'?");
  refused("", "no value ''");
  refused("fc", "'fc' depends on parameters that are trained; the deepest possible cut is flatten");
  refused("layer1.conv1", "does not separate the input from the output; possible: relu+layer1.conv1");
  refused("layer1+relu", "no point of the program has exactly these values");
  const Graph token = transformer(true);
  CHECK_THROWS_WITH_AS(graph::find_cut(token, all_frozen(token), "cls.size"),
                       doctest::Contains("is not a tensor with one row per record"), UsageError);
}
