#include "graph/scheme.h"

#include "cli/error.h"
#include "graph/cut.h"
#include "graph/pool.h"
#include "support/graphs.h"
#include "support/mutate.h"

#include <doctest/doctest.h>

#include <set>

using namespace tl;
using namespace tl::test;
using graph::Head;
using graph::Pool;
using graph::Scheme;

namespace {

Scheme linear_head() {
  Scheme scheme;
  scheme.head = Head{};
  return scheme;
}

std::string classifier(const Graph &graph) {
  return graph.values[static_cast<std::size_t>(graph::classifier_input(graph))].name;
}

std::vector<std::string> ops_from(const Graph &graph, const std::string &prefix) {
  std::vector<std::string> ops;
  for (const graph::Node &node : graph.nodes)
    if (node.module == prefix) ops.push_back(node.op);
  return ops;
}

std::vector<std::string> trained(const Graph &graph) {
  std::vector<std::string> names;
  for (const graph::Parameter &parameter : graph.parameters)
    if (parameter.trainable) names.push_back(parameter.name);
  return names;
}

using Names = std::vector<std::string>;

/// A map of [4, 4] places with 8 channels last, as in Swin, behind a layer norm and an addition.
GraphBuilder swin_like() {
  GraphBuilder b({3, 4, 4});
  const ValueId patches = b.conv(0, "patches", 8);
  const ValueId last = b.add("aten::permute", {Operand::of_value(patches), Operand::of(Ints{0, 2, 3, 1})},
                             "permute", {4, 4, 8});
  const ValueId mlp = b.linear(b.layer_norm(last, "norm1"), "mlp", 8);
  b.sum(last, mlp, "block");
  return b;
}

} // namespace

TEST_CASE("heads are written and read") {
  for (const std::string text : {"linear", "mlp:256", "mlp:512,128", "mlp:1,2,3"})
    CHECK(Head::parse(text).text() == text);
  for (const std::string text :
       {"", "Linear", "mlp", "mlp:", "mlp:0", "mlp:-1", "mlp:1,", "mlp:,1", "mlp:1.5", "mlp:1e3",
        "mlp:99999999", "mlp: 5", "linear:5", "mlp:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"})
    CHECK_THROWS_AS(Head::parse(text), UsageError);
  for (const Pool pool : {Pool::automatic, Pool::none, Pool::mean, Pool::class_token})
    CHECK(graph::pool_from_name(graph::name_of(pool)) == pool);
  CHECK_THROWS_AS(graph::pool_from_name("max"), UsageError);
}

TEST_CASE("adapters are written and read") {
  for (const std::string text : {"64", "8:1", "1:100"}) CHECK(graph::Adapters::parse(text).text() == text);
  for (const std::string text :
       {"", ":", "64:", ":2", "0", "64:0", "-1", "64:-1", "64:2:3", "a", "1e3", "64 :2"})
    CHECK_THROWS_AS(graph::Adapters::parse(text), UsageError);
}

TEST_CASE("a scheme survives JSON; a damaged one is refused") {
  Scheme scheme;
  CHECK(graph::to_json(graph::scheme_from_json(graph::to_json(scheme), "s")) == graph::to_json(scheme));
  scheme = {Head::parse("mlp:8"), "layer3", Pool::class_token, "^layer4", 3, graph::Adapters{64, 2}};
  const Scheme again = graph::scheme_from_json(graph::to_json(scheme), "s");
  CHECK(again.head->text() == "mlp:8");
  CHECK(again.features == "layer3");
  CHECK(again.pool == Pool::class_token);
  CHECK(again.train == "^layer4");
  CHECK(again.unfreeze == 3);
  CHECK(again.adapters->text() == "64:2");
  for (const Mutation &mutation : mutations(graph::to_json(scheme))) {
    CAPTURE(mutation.what);
    if (mutation.kind == "remove") continue; // every field may be left out
    CHECK_THROWS_AS(graph::scheme_from_json(mutation.document, "s"), FormatError);
  }
  CHECK_THROWS_AS(graph::scheme_from_json({{"haed", "linear"}}, "s"), FormatError);
  CHECK_THROWS_AS(graph::scheme_from_json({{"head", "cubic"}}, "s"), FormatError);
  CHECK_THROWS_AS(graph::scheme_from_json("linear", "s"), FormatError);
}

TEST_CASE("the classifier is found in every common form") {
  CHECK(classifier(chain()) == "flatten");
  CHECK(classifier(residual()) == "flatten");
  CHECK(classifier(transformer(true)) == "token");
  CHECK(classifier(transformer(false)) == "mean");
  { // log_softmax behind it; weights transposed before the product; bias added afterwards
    GraphBuilder b({4});
    const ValueId x = b.relu(0, "x");
    const ValueId weight = b.add("aten::t", {b.parameter("fc.weight", {3, 4})}, "t", {4, 3});
    b.at(weight).batched = false;
    const ValueId product =
        b.add("aten::matmul", {Operand::of_value(x), Operand::of_value(weight)}, "product", {3});
    const ValueId biased = b.add(
        "aten::add", {Operand::of_value(product), b.parameter("fc.bias", {3}), Operand::of(std::int64_t{1})},
        "biased", {3});
    b.add("aten::log_softmax", {Operand::of_value(biased), Operand::of(std::int64_t{1})}, "out", {3});
    CHECK(classifier(b.done()) == "x");
  }
  { // a 1x1 convolution in a module named like one, as in SqueezeNet
    GraphBuilder b;
    const ValueId x = b.conv(0, "features", 8);
    const ValueId conv = b.conv(x, "classifier.1", 10, 1);
    b.pool_and_flatten(b.relu(conv, "relu"), "avgpool");
    CHECK(classifier(b.done()) == "features");
  }
}

TEST_CASE("a backbone without classifier keeps its output") {
  { // the last convolution of a backbone is 1x1, as in MobileNetV2
    GraphBuilder b;
    b.pool_and_flatten(b.relu(b.conv(b.conv(0, "features.0", 4), "features.18", 8, 1), "relu"), "avgpool");
    CHECK(classifier(b.done()) == "flatten");
  }
  { // a map
    GraphBuilder b;
    b.conv(0, "classifier", 8, 1);
    CHECK(classifier(b.done()) == "classifier");
  }
  { // a residual branch around the last linear layer
    GraphBuilder b({4});
    const ValueId x = b.relu(0, "x");
    b.sum(x, b.linear(x, "fc", 4), "out");
    CHECK(classifier(b.done()) == "out");
  }
  { // a sequence
    GraphBuilder b({5, 4});
    b.linear(0, "mlp", 4);
    CHECK(classifier(b.done()) == "mlp");
  }
  { // no parameters at all
    GraphBuilder b({4});
    b.relu(0, "x");
    CHECK(classifier(b.done()) == "x");
  }
}

TEST_CASE("a linear head replaces the classifier") {
  const Graph before = residual();
  const Graph graph = graph::apply_scheme(before, linear_head(), 5);
  graph::check(graph);
  CHECK_THROWS_AS(graph.find("fc"), Error);
  CHECK(graph.values[static_cast<std::size_t>(graph.output)].name == "head.0");
  CHECK(graph.values[static_cast<std::size_t>(graph.output)].shape == Shape{5});
  CHECK(trained(graph) == Names{"head.0.weight", "head.0.bias"});
  const graph::Node &node = graph.nodes.back();
  CHECK(node.op == "aten::linear");
  REQUIRE(node.inputs.size() == 3);
  CHECK(graph.values[static_cast<std::size_t>(node.inputs[0].index)].name == "flatten");
  const graph::Parameter &weight = graph.parameters[static_cast<std::size_t>(node.inputs[1].index)];
  CHECK(weight.shape == Shape{5, 8});
  CHECK(weight.fresh);
  CHECK(graph.parameters[static_cast<std::size_t>(node.inputs[2].index)].shape == Shape{5});
  CHECK(graph::deepest_cut(graph, graph::frozen(graph)).name(graph) == "flatten");
  for (const char *name : {"layer1", "layer2", "flatten"}) // what stays has the hash that it had
    CHECK(graph.values[static_cast<std::size_t>(graph.find(name))].hash ==
          before.values[static_cast<std::size_t>(before.find(name))].hash);
  CHECK(output_hash(graph) != Digest{});
}

TEST_CASE("an MLP head has ReLU between its layers") {
  Scheme scheme = linear_head();
  scheme.head = Head::parse("mlp:6,7");
  const Graph graph = graph::apply_scheme(chain(), scheme, 3);
  CHECK(ops_from(graph, "head") ==
        Names{"aten::linear", "aten::relu", "aten::linear", "aten::relu", "aten::linear"});
  const auto shape = [&](const std::string &name) {
    for (const graph::Parameter &parameter : graph.parameters)
      if (parameter.name == name) return parameter.shape;
    return Shape{};
  };
  CHECK(shape("head.0.weight") == Shape{6, 8});
  CHECK(shape("head.2.weight") == Shape{7, 6});
  CHECK(shape("head.4.weight") == Shape{3, 7});
  CHECK(shape("head.4.bias") == Shape{3});
}

TEST_CASE("maps, sequences and vectors are pooled each in its way") {
  const auto pooled = [](const Graph &graph, const std::string &features, Pool pool) {
    Scheme scheme = linear_head();
    scheme.features = features;
    scheme.pool = pool;
    const Graph result = graph::apply_scheme(graph, scheme, 5);
    graph::check(result);
    Names ops = ops_from(result, result.nodes.back().module);
    ops.pop_back(); // the linear layer
    return ops;
  };
  CHECK(pooled(residual(), "layer1", Pool::automatic) == Names{"aten::adaptive_avg_pool2d", "aten::flatten"});
  CHECK(pooled(residual(), "flatten", Pool::automatic).empty());
  CHECK(pooled(transformer(true), "norm", Pool::automatic) == Names{"aten::select"});
  CHECK(pooled(transformer(true), "block", Pool::automatic) == Names{"aten::select"});
  CHECK(pooled(transformer(true), "block", Pool::mean) == Names{"aten::mean"});
  CHECK(pooled(transformer(true), "embed", Pool::automatic) == Names{"aten::mean"}); // before the token joins
  CHECK(pooled(transformer(false), "norm", Pool::automatic) == Names{"aten::mean"});
  CHECK(pooled(transformer(false), "norm", Pool::class_token) == Names{"aten::select"});
  for (const auto &[features, pool] : std::vector<std::pair<std::string, Pool>>{
           {"layer1", Pool::none}, {"layer1", Pool::class_token}, {"flatten", Pool::mean}})
    CHECK_THROWS_WITH_AS(pooled(residual(), features, pool), doctest::Contains("does not fit"), UsageError);
}

TEST_CASE("several values are pooled each in its way and joined") {
  const auto joined = [](const Graph &graph, const std::string &features) {
    Scheme scheme = linear_head();
    scheme.features = features;
    const Graph result = graph::apply_scheme(graph, scheme, 5);
    graph::check(result);
    return result;
  };
  const Graph concatenated = joined(residual(), "layer1+flatten+layer2");
  CHECK(concatenated.values[static_cast<std::size_t>(concatenated.find("head.pool"))].shape ==
        Shape{4 + 8 + 8});
  CHECK(graph::deepest_cut(concatenated, graph::frozen(concatenated)).name(concatenated) == "head.pool");
  CHECK(ops_from(concatenated, "head") == Names{"aten::adaptive_avg_pool2d", "aten::flatten",
                                                "aten::adaptive_avg_pool2d", "aten::flatten",
                                                "prim::ListConstruct", "aten::cat", "aten::linear"});
  const Graph sum = joined(residual(), "sum:layer2+flatten");
  CHECK(sum.values[static_cast<std::size_t>(sum.find("head.pool"))].shape == Shape{8});
  CHECK(ops_from(sum, "head") ==
        Names{"aten::adaptive_avg_pool2d", "aten::flatten", "aten::add", "aten::linear"});
  CHECK(ops_from(joined(transformer(true), "block+embed"), "head") ==
        Names{"aten::select", "aten::mean", "prim::ListConstruct", "aten::cat", "aten::linear"});
  // What is pooled alone is what is pooled among others; the order counts only where they meet.
  const Graph one = joined(residual(), "layer1"), other = joined(residual(), "flatten+layer1");
  const auto hash = [](const Graph &graph, const char *name) {
    return graph.values[static_cast<std::size_t>(graph.find(name))].hash;
  };
  CHECK(hash(one, "head.pool") == hash(concatenated, "head.pool.0"));
  CHECK(hash(one, "head.pool") == hash(other, "head.pool.1"));
  CHECK(hash(joined(residual(), "layer1+flatten"), "head.pool") != hash(other, "head.pool"));
  // A value that no feature needs is gone, whichever is named last.
  CHECK_THROWS_AS(joined(residual(), "layer1+conv1").find("layer2"), Error);
}

TEST_CASE("the last blocks train, counted below the head") {
  const auto trains = [](const Graph &graph, const std::string &features, std::int64_t unfreeze) {
    Scheme scheme = linear_head();
    scheme.features = features;
    scheme.unfreeze = unfreeze;
    std::set<std::string> modules;
    for (const std::string &name : trained(graph::apply_scheme(graph, scheme, 5)))
      modules.insert(name.substr(0, name.find('.')));
    return modules;
  };
  using Modules = std::set<std::string>;
  CHECK(trains(residual(), "", 1) == Modules{"layer2", "head"});
  CHECK(trains(residual(), "", 2) == Modules{"layer1", "layer2", "head"});
  CHECK(trains(residual(), "", 3) == Modules{"conv1", "bn1", "layer1", "layer2", "head"});
  CHECK(trains(residual(), "layer1", 1) == Modules{"layer1", "head"});
  CHECK(trains(residual(), "layer1+layer2", 1) == Modules{"layer2", "head"});
  CHECK_THROWS_WITH_AS(trains(residual(), "", 4),
                       "--unfreeze 4: there are only 3 blocks, from 'conv1' to 'layer2'", UsageError);
  Scheme own; // classifier: the last block
  own.unfreeze = 2;
  CHECK(trained(graph::apply_scheme(chain(), own, 10)) ==
        Names{"conv2.weight", "conv2.bias", "fc.weight", "fc.bias"});
}

TEST_CASE("adapters train inside a frozen network, whose cut is before the first of them") {
  Scheme scheme = linear_head();
  scheme.adapters = graph::Adapters::parse("3:1");
  const Graph graph = graph::apply_scheme(residual(), scheme, 5);
  graph::check(graph);
  CHECK(graph::deepest_cut(graph, graph::frozen(graph)).name(graph) == "layer2");
  for (const std::string &name : trained(graph))
    CHECK((name.rfind("adapters.2.", 0) == 0 || name.rfind("head.", 0) == 0));
  CHECK(trained(graph).size() == 6);
  for (const graph::Node &node : graph.nodes) CHECK_FALSE(graph::trains_batch_norm(graph, node));
  scheme.adapters->blocks = 0; // behind every block
  const Graph all = graph::apply_scheme(residual(), scheme, 5);
  CHECK(graph::deepest_cut(all, graph::frozen(all)).name(all) == "relu");
  CHECK(trained(all).size() == 3 * 4 + 2);
  // Frozen layers behind an adapter are no longer those of the model; before it they are.
  const auto hash = [](const Graph &of, const char *name) {
    return of.values[static_cast<std::size_t>(of.find(name))].hash;
  };
  CHECK(hash(all, "layer1.conv1") != hash(residual(), "layer1.conv1"));
  CHECK(hash(all, "relu") == hash(residual(), "relu"));
  Graph hashed = all;
  graph::compute_hashes(hashed, hash_text("preprocessing"));
  CHECK(graph::to_json(hashed) == graph::to_json(all));
}

TEST_CASE("channels are found first or last through element-wise operators") {
  GraphBuilder b = swin_like();
  const Graph graph = b.done();
  CHECK_FALSE(graph::channels_last(graph, graph.find("patches")));
  for (const char *name : {"permute", "norm1", "mlp", "block"})
    CHECK(graph::channels_last(graph, graph.find(name)));
  Scheme scheme = linear_head();
  scheme.features = "block";
  const Graph applied = graph::apply_scheme(graph, scheme, 2);
  const graph::Node &pool = applied.nodes[applied.nodes.size() - 2];
  CHECK(pool.op == "aten::mean");
  CHECK(std::get<Ints>(pool.inputs[1].constant) == Ints{1, 2});
  CHECK(applied.values[static_cast<std::size_t>(applied.find("head.pool"))].shape == Shape{8});

  GraphBuilder back = swin_like(); // and back, as in ConvNeXt
  back.relu(back.add("aten::permute", {Operand::of_value(back.raw().output), Operand::of(Ints{0, 3, 1, 2})},
                     "back", {8, 4, 4}),
            "scaled");
  const Graph first = back.done();
  CHECK_FALSE(graph::channels_last(first, first.find("scaled")));
  GraphBuilder input({4, 4, 3}); // only a reader knows
  input.layer_norm(0, "norm");
  CHECK(graph::channels_last(input.done(), 0));
}

TEST_CASE("a name that the model uses itself is not taken twice") {
  GraphBuilder b({4});
  const ValueId x = b.linear(0, "head.0", 4);
  b.linear(b.relu(x, "head.1"), "head.2", 3);
  const Graph graph = graph::apply_scheme(b.done(), linear_head(), 2);
  graph::check(graph);
  CHECK(graph.find("head2.0") == graph.output);
}

TEST_CASE("parameters are trained by their names, buffers never") {
  Scheme scheme = linear_head();
  scheme.train = "^layer2|bn1";
  const Graph graph = graph::apply_scheme(residual(), scheme, 5);
  for (const graph::Parameter &parameter : graph.parameters) {
    const bool named =
        parameter.name.rfind("layer2", 0) == 0 || parameter.name.find("bn1") != std::string::npos;
    CHECK(parameter.trainable == ((named && !parameter.buffer) || parameter.fresh));
  }
  CHECK(graph::deepest_cut(graph, graph::frozen(graph)).name(graph) == "conv1"); // bn1 behind it trains
  int training = 0;
  for (const graph::Node &node : graph.nodes) training += graph::trains_batch_norm(graph, node);
  CHECK(training == 2);
}

TEST_CASE("tied weights are trained by any of their names") {
  Graph graph = chain();
  graph.parameters[2].tied = {"decoder.weight"};
  Scheme scheme;
  scheme.train = "^decoder";
  CHECK(trained(graph::apply_scheme(graph, scheme, 10)) == Names{"conv2.weight"});
}

TEST_CASE("frozen nodes come first, so that the deepest cut takes them all") {
  Scheme scheme = linear_head();
  scheme.train = "^layer2.conv1"; // the projection beside it stays frozen, though it is written later
  const Graph graph = graph::apply_scheme(residual(), scheme, 5);
  graph::check(graph);
  const std::vector<bool> frozen = graph::frozen(graph);
  bool trains = false;
  for (const graph::Node &node : graph.nodes) {
    const bool node_frozen = frozen[static_cast<std::size_t>(node.outputs[0])];
    CHECK_FALSE((trains && node_frozen));
    trains = trains || !node_frozen;
  }
  CHECK(graph::deepest_cut(graph, frozen).name(graph) == "layer1+layer2.downsample");
  Graph hashed = graph;
  graph::compute_hashes(hashed, hash_text("preprocessing"));
  CHECK(graph::to_json(hashed) == graph::to_json(graph)); // the order changed no hash
}

TEST_CASE("a size that only the trained part reads stays there") {
  GraphBuilder b({2, 4});
  const ValueId x = b.relu(0, "x");
  const ValueId y = b.linear(x, "trained", 4);
  const ValueId size = b.add("aten::size", {Operand::of_value(x), Operand::of(std::int64_t{0})}, "size", {});
  b.at(size).kind = ValueKind::integer;
  b.at(size).batched = false;
  b.add("aten::view", {Operand::of_value(y), Operand::of_value(size)}, "out", {8});
  Scheme scheme;
  scheme.train = "trained";
  const Graph graph = graph::apply_scheme(b.done(), scheme, 8);
  CHECK(graph::deepest_cut(graph, graph::frozen(graph)).name(graph) == "x");
}

TEST_CASE("on random graphs a scheme keeps the function and loses no frozen node") {
  std::mt19937 random(5);
  int applied = 0;
  for (int round = 0; round < 300; ++round) {
    const Graph graph = random_dag(random, 12);
    if (graph.parameters.empty()) continue;
    Scheme scheme;
    scheme.train = "^" + graph.parameters[random() % graph.parameters.size()].name + "$";
    const Graph result = graph::apply_scheme(graph, scheme, 4);
    graph::check(result);
    CHECK(output_hash(result) == output_hash(graph));
    CHECK(result.nodes.size() == graph.nodes.size());
    ++applied;
  }
  CHECK(applied > 100);
}

TEST_CASE("what makes no sense is refused with one line that says what to do") {
  const auto refused = [](const Graph &graph, const Scheme &scheme, std::int64_t classes, const char *why) {
    CHECK_THROWS_WITH_AS(graph::apply_scheme(graph, scheme, classes), doctest::Contains(why), UsageError);
  };
  refused(chain(), {}, 10, "give --head linear");
  refused(chain(), linear_head(), 0, "classes");
  Scheme scheme;
  scheme.train = "conv9";
  refused(chain(), scheme, 10, "matches none of the 6 parameters");
  scheme.train = "(";
  refused(chain(), scheme, 10, "not a regular expression");
  scheme.train = "fc";
  refused(chain(), scheme, 5, "add a new classifier with --head linear");
  scheme.pool = Pool::mean;
  refused(chain(), scheme, 10, "give --head too");
  scheme = linear_head();
  scheme.train = "^fc"; // the head replaces it
  refused(chain(), scheme, 10, "matches none of the 4 parameters that stay");
  scheme.train.clear();
  scheme.features = "conv3";
  refused(chain(), scheme, 10, "did you mean 'conv1'?");
  scheme.features = "cls.size";
  refused(transformer(true), scheme, 10, "a head cannot read 'cls.size'");
  GraphBuilder tokens({7}, DType::i64);
  tokens.relu(0, "x");
  scheme.features = "input";
  refused(tokens.done(), scheme, 10, "a head cannot read 'input'");
  for (const auto &[features, why] : std::vector<std::pair<const char *, const char *>>{
           {"layer1+", "no value ''"},
           {"+layer1", "no value ''"},
           {"layer1+layer1", "twice"},
           {"layer1+layer9", "did you mean 'layer1'?"},
           {"sum:layer1", "no value 'sum:layer1'"},
           {"sum:layer1+layer2", "'layer2' is not of the same width"}}) {
    CAPTURE(features);
    scheme.features = features;
    CHECK_THROWS_AS(graph::apply_scheme(residual(), scheme, 10), UsageError);
    try {
      graph::apply_scheme(residual(), scheme, 10);
    } catch (const UsageError &error) {
      CHECK_MESSAGE(std::string(error.what()).find(why) != std::string::npos, error.what());
    }
  }
  scheme = {};
  scheme.train = "fc";
  scheme.adapters = graph::Adapters{4, 1};
  refused(chain(), scheme, 10, "below a new head");
}
