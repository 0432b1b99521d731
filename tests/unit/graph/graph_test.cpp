#include "cli/error.h"
#include "graph/flops.h"
#include "support/graphs.h"
#include "support/mutate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace tl;
using namespace tl::test;

TEST_CASE("values are found by name and alias; a wrong name gets a suggestion") {
  Graph graph = chain();
  graph.values[static_cast<std::size_t>(graph.find("relu2"))].aliases = {"features"};
  CHECK(graph.find("features") == graph.find("relu2"));
  CHECK(graph.find("input") == 0);
  CHECK_THROWS_WITH_AS(graph.find("relu3"), "the model has no value 'relu3'; did you mean 'relu1'?", Error);
  CHECK_THROWS_WITH_AS(graph.find("something else"), "the model has no value 'something else'", Error);
}

TEST_CASE("readers are listed once, in order") {
  GraphBuilder b({4});
  const ValueId x = b.relu(0, "x");
  b.sum(x, x, "y");
  b.sum(x, 0, "z");
  const auto readers = b.done().readers();
  CHECK(readers[0] == std::vector<int>{0, 2});
  CHECK(readers[1] == std::vector<int>{1, 2});
}

TEST_CASE("pruning keeps what the output needs and nothing else") {
  Graph graph = residual();
  const Digest hash = graph.values[static_cast<std::size_t>(graph.find("layer1"))].hash;
  graph.output = graph.find("layer1");
  graph.constants.push_back({});
  graph::prune(graph);
  graph::check(graph);
  CHECK(graph.constants.empty());
  CHECK_THROWS_AS(graph.find("layer2"), Error);
  for (const graph::Parameter &parameter : graph.parameters) CHECK(parameter.name.rfind("layer2", 0) != 0);
  graph::compute_hashes(graph, hash_text("preprocessing"));
  CHECK(output_hash(graph) == hash);

  graph.output = 0;
  graph::prune(graph);
  graph::check(graph);
  CHECK(graph.nodes.empty());
  CHECK(graph.parameters.empty());
  CHECK(graph.values.size() == 1);
}

TEST_CASE("pruning keeps every output of a node that is needed") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Graph graph = random_dag(random, 12);
    const json::Value before = graph::to_json(graph);
    graph::prune(graph);
    CHECK(graph::to_json(graph) == before);
  }
}

TEST_CASE("a broken graph is refused with its place") {
  const auto refused = [](auto change, const char *why) {
    Graph graph = chain();
    change(graph);
    CHECK_THROWS_WITH_AS(graph::check(graph), doctest::Contains(why), FormatError);
  };
  refused([](Graph &g) { g.values.clear(); }, "no values");
  refused([](Graph &g) { g.output = 99; }, "output is value 99");
  refused([](Graph &g) { g.output = -1; }, "output is value -1");
  refused([](Graph &g) { g.values[0].node = 0; }, "value 0 must be");
  refused([](Graph &g) { g.values[0].kind = ValueKind::integer; }, "input must be a tensor");
  refused([](Graph &g) { g.nodes[1].inputs[0].index = 99; }, "reads value 99");
  refused([](Graph &g) { g.nodes[1].inputs[0].index = -1; }, "reads value -1");
  refused([](Graph &g) { g.nodes[0].inputs[1].index = 99; }, "reads parameter 99");
  refused([](Graph &g) { g.nodes[0].inputs[3] = Operand::of(graph::TensorIndex{0}); }, "reads constant 0");
  refused([](Graph &g) { std::swap(g.nodes[0], g.nodes[1]); }, "before it is computed");
  refused([](Graph &g) { g.nodes[1].outputs = {1}; }, "computed twice");
  refused([](Graph &g) { g.nodes[1].outputs = {0}; }, "writes value 0");
  refused([](Graph &g) { g.nodes[1].outputs = {}; }, "before it is computed");
  refused([](Graph &g) { g.nodes.back().outputs = {}; }, "computed by no node");
  refused([](Graph &g) { g.values[1].node = 3; }, "names another node");
  refused([](Graph &g) { g.values[1].name = g.values[2].name; }, "there twice");
  refused([](Graph &g) { g.values[1].aliases = {"fc"}; }, "there twice");
  refused([](Graph &g) { g.values[1].name.clear(); }, "no name");
  refused([](Graph &g) { g.parameters[1].name = g.parameters[0].name; }, "there twice");
  refused([](Graph &g) { g.values[1].shape = {-1}; }, "impossible shape");
  refused([](Graph &g) { g.values[1].shape = {1 << 30, 1 << 30}; }, "impossibly large");
}

TEST_CASE("JSON keeps everything, infinities too") {
  std::mt19937 random(3);
  std::vector<Graph> graphs = {chain(), residual(), dense(), transformer(true)};
  for (int round = 0; round < 50; ++round) graphs.push_back(random_dag(random, 15));
  GraphBuilder b({4});
  const double inf = std::numeric_limits<double>::infinity();
  b.raw().constants.push_back({DType::i64, {2}, hash_text("table")});
  b.add("aten::op",
        {Operand::of_value(0), Operand::of(-inf), Operand::of(std::vector<double>{inf, 0.1, -inf}),
         Operand::of(graph::TensorIndex{0}), Operand::of(std::numeric_limits<std::int64_t>::max())},
        "x", {4});
  b.raw().values[1].aliases = {"y", "z"};
  b.raw().parameters.push_back({});
  b.raw().parameters[0].name = "w";
  b.raw().parameters[0].tied = {"u"};
  b.raw().parameters[0].trainable = b.raw().parameters[0].fresh = true;
  graphs.push_back(b.done());
  for (const Graph &graph : graphs) {
    const std::string text = json::compact(graph::to_json(graph));
    Graph again = graph::from_json(json::parse(text, "text"), "text");
    CHECK(json::compact(graph::to_json(again)) == text);
    graph::compute_hashes(again, hash_text("preprocessing"));
    CHECK(output_hash(again) == output_hash(graph));
  }
  GraphBuilder n({4});
  n.add("aten::op", {Operand::of_value(0), Operand::of(std::nan(""))}, "x", {4});
  const Graph nan = graph::from_json(graph::to_json(n.done()), "nan");
  CHECK(std::isnan(std::get<double>(nan.nodes[0].inputs[1].constant)));
}

TEST_CASE("a damaged graph document gives one line, whatever the damage") {
  const json::Value document = graph::to_json(transformer(true));
  for (const Mutation &mutation : mutations(document)) {
    CAPTURE(mutation.what);
    try {
      graph::from_json(mutation.document, "origin"); // some damage is harmless
    } catch (const FormatError &error) {
      const std::string message = error.what();
      CHECK(message.rfind("origin: graph: ", 0) == 0);
      CHECK(message.find('\n') == std::string::npos);
    }
  }
  CHECK_THROWS_AS(graph::from_json(json::Value::array(), "origin"), FormatError);
  CHECK_THROWS_AS(graph::from_json(nullptr, "origin"), FormatError);
}

TEST_CASE("floating-point operations of the heavy operators are exact") {
  const auto of = [](GraphBuilder &b) { return graph::flops(b.raw(), b.raw().nodes.back()); };
  {
    GraphBuilder b({3, 8, 8});
    b.conv(0, "c", 16, 3, 2); // 16x4x4 outputs, each 3*3*3 multiply-adds
    CHECK(of(b) == 2.0 * 16 * 4 * 4 * 27);
  }
  {
    GraphBuilder b({8, 8, 8}); // depthwise: groups 8, one input channel a kernel
    b.add("aten::conv2d", {Operand::of_value(0), b.parameter("w", {8, 1, 3, 3})}, "c", {8, 8, 8});
    CHECK(of(b) == 2.0 * 8 * 64 * 9);
  }
  {
    GraphBuilder b({8, 4, 4}); // transposed: each input element spreads over 5 x 2x2 outputs
    b.add("aten::_convolution",
          {Operand::of_value(0), b.parameter("w", {8, 5, 2, 2}), Operand::of(std::monostate{}),
           Operand::of(Ints{2, 2}), Operand::of(Ints{0, 0}), Operand::of(Ints{1, 1}), Operand::of(true),
           Operand::of(Ints{0, 0}), Operand::of(std::int64_t{1})},
          "c", {5, 8, 8});
    CHECK(of(b) == 2.0 * 128 * 20);
  }
  {
    GraphBuilder b({7, 6});
    b.linear(0, "l", 5);
    CHECK(of(b) == 2.0 * 7 * 5 * 6);
    b.add("aten::matmul", {Operand::of_value(0), Operand::of_value(0)}, "m", {7, 7});
    CHECK(of(b) == 2.0 * 49 * 6);
    b.add("aten::addmm", {b.parameter("bias", {5}), Operand::of_value(0), b.parameter("t", {6, 5})}, "a",
          {7, 5});
    CHECK(of(b) == 2.0 * 35 * 6);
    b.relu(0, "r");
    CHECK(of(b) == 42);
    const ValueId q = b.add("aten::view", {Operand::of_value(0)}, "q", {2, 7, 3});
    b.add("aten::scaled_dot_product_attention",
          {Operand::of_value(q), Operand::of_value(q), Operand::of_value(q)}, "s", {2, 7, 3});
    CHECK(of(b) == 2 * (2.0 * 2 * 7 * 7 * 3)); // two products in each of two heads
  }
  {
    GraphBuilder b({7, 4});
    std::vector<Operand> inputs = {
        Operand::of_value(0),         Operand::of_value(0),          Operand::of_value(0),
        Operand::of(std::int64_t{4}), Operand::of(std::int64_t{2}),  b.parameter("qkv.w", {12, 4}),
        b.parameter("qkv.b", {12}),   b.parameter("proj.w", {4, 4}), b.parameter("proj.b", {4})};
    b.add("aten::_native_multi_head_attention", inputs, "m", {7, 4});
    CHECK(of(b) == 2.0 * 7 * (48 + 16) + 2 * (2.0 * 7 * 7 * 4));
  }
}
