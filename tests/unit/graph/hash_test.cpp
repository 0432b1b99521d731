#include "support/graphs.h"

#include <doctest/doctest.h>

#include <set>

using namespace tl;
using namespace tl::test;

namespace {

/// The output's hash after `change`.
template <class Change> Digest changed(Graph graph, Change change) {
  change(graph);
  graph::compute_hashes(graph, hash_text("preprocessing"));
  return output_hash(graph);
}

graph::Node &node_named(Graph &graph, const std::string &value) {
  return graph
      .nodes[static_cast<std::size_t>(graph.values[static_cast<std::size_t>(graph.find(value))].node)];
}

} // namespace

TEST_CASE("a hash does not depend on names, on order or on dead nodes") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Graph graph = random_dag(random, 1 + round % 20);
    Graph other = relabelled(graph, random);
    graph::check(other);
    graph::compute_hashes(other, hash_text("preprocessing"));
    CHECK(output_hash(other) == output_hash(graph));
    graph::prune(other);
    CHECK(other.nodes.size() == graph.nodes.size());
    graph::compute_hashes(other, hash_text("preprocessing"));
    CHECK(output_hash(other) == output_hash(graph));
  }
}

TEST_CASE("a hash depends on everything that can change a value") {
  const Graph graph = residual();
  std::set<Digest> seen = {output_hash(graph)};
  const auto differs = [&](auto change) { CHECK(seen.insert(changed(graph, change)).second); };
  differs([](Graph &g) { node_named(g, "relu").op = "aten::tanh"; });
  differs([](Graph &g) { node_named(g, "conv1").inputs[3] = Operand::of(Ints{2, 2}); });
  differs([](Graph &g) { node_named(g, "conv1").inputs[3] = Operand::of(Ints{2}); });
  differs([](Graph &g) { node_named(g, "conv1").inputs[2] = Operand::of(std::monostate{}); });
  differs([](Graph &g) { node_named(g, "bn1").inputs[7] = Operand::of(1e-3); });
  differs([](Graph &g) { node_named(g, "bn1").inputs[5] = Operand::of(true); });
  differs([](Graph &g) { g.parameters[0].content = hash_text("other weights"); });
  differs([](Graph &g) { g.values[0].shape = {3, 8, 9}; });
  differs([](Graph &g) { g.values[0].dtype = DType::f64; });
  differs([](Graph &g) {
    std::swap(node_named(g, "layer1.add").inputs[0], node_named(g, "layer1.add").inputs[1]);
  });
  differs([](Graph &g) { g.output = g.find("layer2"); });
  Graph other = graph;
  graph::compute_hashes(other, hash_text("other preprocessing"));
  CHECK(seen.insert(output_hash(other)).second);
}

TEST_CASE("literals of different types have different hashes") {
  const std::vector<Constant> constants = {std::monostate{},
                                           false,
                                           std::int64_t{0},
                                           0.0,
                                           std::string(),
                                           std::string("0"),
                                           Ints{},
                                           Ints{0},
                                           Ints{0, 0},
                                           std::vector<double>{},
                                           std::vector<double>{0},
                                           std::vector<bool>{},
                                           std::vector<bool>{false},
                                           true,
                                           std::int64_t{1},
                                           1.0,
                                           -0.0};
  std::set<Digest> seen;
  for (const Constant &constant : constants) {
    GraphBuilder b({4});
    b.add("aten::op", {Operand::of_value(0), Operand::of(constant)}, "x", {4});
    CHECK(seen.insert(output_hash(b.done())).second);
  }
}

TEST_CASE("tensor constants hash by type, shape and content, not by index") {
  const auto make = [](DType dtype, const Shape &shape, const std::string &content, int index) {
    GraphBuilder b({4});
    for (int i = 0; i <= index; ++i) b.raw().constants.push_back({dtype, shape, hash_text(content)});
    b.add("aten::add", {Operand::of_value(0), Operand::of(graph::TensorIndex{index})}, "x", {4});
    return output_hash(b.done());
  };
  const Digest base = make(DType::f32, {4}, "a", 0);
  CHECK(make(DType::f32, {4}, "a", 2) == base);
  CHECK(make(DType::f32, {4}, "b", 0) != base);
  CHECK(make(DType::f32, {2, 2}, "a", 0) != base);
  CHECK(make(DType::i32, {4}, "a", 0) != base);
}

TEST_CASE("flags that only choose a kernel change no hash") {
  const Graph graph = residual();
  CHECK(changed(graph, [](Graph &g) { node_named(g, "bn1").inputs[8] = Operand::of(false); }) ==
        output_hash(graph));
  const auto convolution = [](bool flag, std::int64_t groups) {
    GraphBuilder b;
    const Operand weight = b.parameter("w", {3, 3, 1, 1});
    std::vector<Operand> inputs = {Operand::of_value(0),
                                   weight,
                                   Operand::of(std::monostate{}),
                                   Operand::of(Ints{1, 1}),
                                   Operand::of(Ints{0, 0}),
                                   Operand::of(Ints{1, 1}),
                                   Operand::of(false),
                                   Operand::of(Ints{0, 0}),
                                   Operand::of(groups)};
    for (int i = 0; i < 4; ++i) inputs.push_back(Operand::of(flag));
    b.add("aten::_convolution", inputs, "x", {3, 8, 8});
    return output_hash(b.done());
  };
  CHECK(convolution(true, 1) == convolution(false, 1));
  CHECK(convolution(true, 1) != convolution(true, 3));
}

TEST_CASE("the outputs of one node differ, and so do values of parameters without contents") {
  GraphBuilder b({4});
  b.add("aten::split", {Operand::of_value(0)}, "a", {2});
  graph::Value second = b.raw().values.back();
  second.name = "b";
  b.raw().values.push_back(second);
  b.raw().nodes[0].outputs.push_back(2);
  const Graph graph = b.done();
  CHECK(graph.values[1].hash != graph.values[2].hash);

  const auto fresh = [](const std::string &name, const Shape &shape) {
    GraphBuilder f({4});
    const Operand weight = f.parameter(name, shape);
    f.raw().parameters[0].fresh = true;
    f.add("aten::linear", {Operand::of_value(0), weight}, "x", {2});
    return output_hash(f.done());
  };
  CHECK(fresh("head.0.weight", {2, 4}) == fresh("head.0.weight", {2, 4}));
  CHECK(fresh("head.0.weight", {2, 4}) != fresh("head.1.weight", {2, 4}));
  CHECK(fresh("head.0.weight", {2, 4}) != fresh("head.0.weight", {3, 4}));
}
