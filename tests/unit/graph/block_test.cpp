// The blocks of networks of every kind, and adapters behind them.
#include "graph/block.h"

#include "cli/error.h"
#include "graph/adapter.h"
#include "graph/cut.h"
#include "support/graphs.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::test;
using graph::Block;

namespace {

using Names = std::vector<std::string>;

std::vector<Block> blocks(const Graph &graph) {
  return graph::find_blocks(graph, static_cast<int>(graph.nodes.size()), graph.output);
}

Names names(const Graph &graph) {
  Names result;
  for (const Block &block : blocks(graph)) result.push_back(block.name);
  return result;
}

Names outputs(const Graph &graph) {
  Names result;
  for (const Block &block : blocks(graph))
    result.push_back(block.output < 0 ? "" : graph.values[static_cast<std::size_t>(block.output)].name);
  return result;
}

Names parameters(const Graph &graph, const Block &block) {
  Names result;
  for (const int p : block.parameters) result.push_back(graph.parameters[static_cast<std::size_t>(p)].name);
  return result;
}

/// Blocks of two convolutions in the modules `prefix`.0 and .1, the first without a shortcut, as in
/// MobileNetV2.
GraphBuilder inverted_residuals() {
  GraphBuilder b;
  ValueId x = b.relu(b.batch_norm(b.conv(0, "features.0.0", 4, 3, 2), "features.0.1"), "stem");
  x = b.batch_norm(b.conv(b.relu(b.conv(x, "features.1.conv.0", 8), "r1"), "features.1.conv.1", 4),
                   "features.1.conv.2");
  const ValueId branch = b.conv(b.relu(b.conv(x, "features.2.conv.0", 8), "r2"), "features.2.conv.1", 4);
  x = b.sum(x, branch, "features.2");
  x = b.relu(b.batch_norm(b.conv(x, "features.3.0", 8, 1), "features.3.1"), "last");
  b.linear(b.pool_and_flatten(x, "avgpool"), "classifier.1", 5);
  return b;
}

/// Encoder layers over tokens, with a mask made from them that every layer reads.
GraphBuilder masked_encoder(int layers) {
  GraphBuilder b({7}, DType::i64);
  const ValueId mask = b.add("aten::eq", {Operand::of_value(0), Operand::of(std::int64_t{0})}, "mask", {7});
  b.at(mask).dtype = DType::boolean;
  const Operand table = b.parameter("embed.weight", {50, 4});
  ValueId x = b.add("aten::embedding", {table, Operand::of_value(0)}, "embed", {7, 4});
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "encoder." + std::to_string(i);
    const ValueId attention = b.add(
        "aten::attention", {Operand::of_value(b.linear(x, layer + ".attn.in", 4)), Operand::of_value(mask)},
        layer + ".attention", {7, 4});
    x = b.layer_norm(b.sum(x, b.linear(attention, layer + ".attn.out", 4), layer + ".a"), layer + ".norm1");
    x = b.layer_norm(
        b.sum(x, b.linear(b.relu(b.linear(x, layer + ".mlp.0", 8), layer + ".relu"), layer + ".mlp.2", 4),
              layer + ".b"),
        layer + ".norm2");
  }
  b.layer_norm(x, "norm");
  return b;
}

} // namespace

TEST_CASE("in a plain chain each layer is a block, normalisation belongs to the one before") {
  CHECK(names(chain()) == Names{"conv1", "conv2", "fc"});
  CHECK(outputs(chain()) == Names{"relu1", "relu2", "fc"});
  GraphBuilder b;
  ValueId x = b.relu(b.batch_norm(b.conv(0, "features.0", 4), "features.1"), "features.2");
  x = b.relu(b.batch_norm(b.conv(x, "features.3", 4), "features.4"), "features.5");
  b.linear(b.pool_and_flatten(x, "avgpool"), "classifier", 5);
  const Graph graph = b.done();
  CHECK(names(graph) == Names{"features.0", "features.3", "classifier"});
  CHECK(outputs(graph) == Names{"features.2", "features.5", "classifier"});
  CHECK(parameters(graph, blocks(graph)[1]) ==
        Names{"features.3.weight", "features.3.bias", "features.4.weight", "features.4.bias"});
}

TEST_CASE("a residual block is one block, with its projection") {
  const Graph graph = residual();
  CHECK(names(graph) == Names{"conv1", "layer1", "layer2", "fc"});
  CHECK(outputs(graph) == Names{"relu", "layer1", "layer2", "fc"});
  CHECK(parameters(graph, blocks(graph)[2]).size() == 6);
}

TEST_CASE("a block without a shortcut beside those that have one is a block, too") {
  const Graph graph = inverted_residuals().done();
  CHECK(names(graph) == Names{"features.0", "features.1", "features.2", "features.3", "classifier.1"});
  CHECK(outputs(graph) == Names{"stem", "features.1.conv.2", "features.2", "last", "classifier.1"});
}

TEST_CASE("encoder layers are blocks, whatever passes beside them") {
  const Graph graph = masked_encoder(3).done();
  CHECK(names(graph) == Names{"embed", "encoder.0", "encoder.1", "encoder.2"});
  // The last norm trains with the last layer, whose output is before it.
  CHECK(outputs(graph) == Names{"embed", "encoder.0.norm2", "encoder.1.norm2", "encoder.2.norm2"});
  const Names last = parameters(graph, blocks(graph)[3]);
  CHECK(std::count(last.begin(), last.end(), "norm.weight") == 1);
  CHECK(last.size() == 14);
}

TEST_CASE("a class token and what else has no module belongs to the block before") {
  Graph graph = transformer(true);
  for (graph::Node &node : graph.nodes)
    if (node.module.rfind("cls", 0) == 0) node.module.clear();
  CHECK(names(graph) == Names{"embed", "block", "head"});
  CHECK(parameters(graph, blocks(graph)[0]) == Names{"embed.weight", "embed.bias", "cls"});
}

TEST_CASE("a file that names no modules has the blocks that its parameters' names tell") {
  for (const Graph &named : {chain(), residual(), inverted_residuals().done(), masked_encoder(2).done()}) {
    Graph plain = named;
    for (graph::Node &node : plain.nodes) node.module.clear();
    CHECK(names(plain) == names(named));
    CHECK(outputs(plain) == outputs(named));
  }
}

TEST_CASE("every parameter is in a block, on any graph") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const Graph graph = random_dag(random, 12, true);
    std::vector<bool> found(graph.parameters.size(), false);
    int position = 0;
    for (const Block &block : blocks(graph)) {
      for (const int p : block.parameters) found[static_cast<std::size_t>(p)] = true;
      if (block.output < 0) continue;
      CHECK(block.position > graph.values[static_cast<std::size_t>(block.output)].node);
      CHECK(block.position >= position);
      position = block.position;
    }
    for (std::size_t p = 0; p < found.size(); ++p) CHECK((found[p] || graph.parameters[p].buffer));
  }
}

TEST_CASE("an adapter follows each of the last blocks and changes what comes behind it alone") {
  Graph graph = residual();
  const Graph before = graph;
  graph::add_adapters(graph, {2, 2}, blocks(graph));
  graph::check(graph);
  const auto hash = [](const Graph &of, const char *name) {
    return of.values[static_cast<std::size_t>(of.find(name))].hash;
  };
  for (const char *name : {"conv1", "layer1", "layer2"}) CHECK(hash(graph, name) == hash(before, name));
  for (const char *name : {"flatten", "fc"}) CHECK(hash(graph, name) != hash(before, name));
  // Behind layer2 and behind fc; what read layer2 reads the adapter's sum.
  const graph::Node &pool = graph.nodes[static_cast<std::size_t>(
      graph.values[static_cast<std::size_t>(graph.find("avgpool"))].node)];
  CHECK(pool.inputs[0].index == graph.find("adapters.2"));
  const auto shape = [&](const std::string &name) {
    for (const graph::Parameter &parameter : graph.parameters)
      if (parameter.name == name) return parameter.shape;
    return Shape{};
  };
  CHECK(shape("adapters.2.down.weight") == Shape{2, 8, 1, 1});
  CHECK(shape("adapters.2.up.weight") == Shape{8, 2, 1, 1});
  CHECK(shape("adapters.3.down.weight") == Shape{2, 10});
  for (const graph::Parameter &parameter : graph.parameters) {
    const bool adapter = parameter.name.rfind("adapters.", 0) == 0;
    CHECK(parameter.fresh == adapter);
    CHECK(parameter.zero == (adapter && parameter.name.find(".up.") != std::string::npos));
  }
  CHECK_THROWS_WITH_AS(graph::add_adapters(graph, {2, 9}, blocks(graph)), doctest::Contains("there are only"),
                       UsageError);
}
