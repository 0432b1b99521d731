// Programs built from a graph: split anywhere they give what the whole gives, trained or not.
#include "cli/error.h"
#include "graph/cut.h"
#include "model/export.h"
#include "model/program.h"
#include "model/tensors.h"
#include "support/files.h"
#include "support/models.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::model;

namespace {

struct Loaded {
  test::TempFolder folder;
  std::string path = test::save(test::conv_net(), folder.path("model.pt"));
  Model model = load_model(path, test::kPicture, Digest());
  at::Tensor input = test::Draws(9).uniform({5, 3, 8, 8}, -1, 1);
};

double difference(const at::Tensor &a, const at::Tensor &b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

Model under(const Model &model, const std::string &train, bool head = true) {
  graph::Scheme scheme;
  if (head) scheme.head = graph::Head{};
  scheme.train = train;
  Model result = apply_scheme(model, scheme, 3);
  initialise(result, 7);
  return result;
}

/// Three steps of plain SGD on the deepest `cut`'s values; the losses.
std::vector<double> train(const Model &model, const graph::Cut &cut, const at::Tensor &input) {
  const FrozenProgram prefix(model, {0}, cut.values);
  const TrainedProgram program(model, cut.values);
  const at::Tensor labels = torch::tensor({0, 1, 2, 0, 1}, at::kLong);
  const auto features = prefix.run({input});
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    const at::Tensor loss = torch::cross_entropy_loss(program.run(features, true), labels);
    loss.backward();
    losses.push_back(loss.item<double>());
    const at::NoGradGuard no_grad;
    for (at::Tensor parameter : program.trainable()) {
      parameter.sub_(parameter.grad(), 0.1);
      parameter.mutable_grad().reset();
    }
  }
  return losses;
}

} // namespace

TEST_CASE_FIXTURE(Loaded, "cut anywhere, prefix and rest give the whole") {
  const at::Tensor whole = torch::jit::load(path).forward({input}).toTensor();
  const std::vector<bool> all(model.graph.values.size(), true);
  const auto cuts = graph::enumerate_cuts(model.graph, all);
  CHECK(cuts.size() > 8);
  bool several = false;
  for (const graph::Cut &cut : cuts) {
    CAPTURE(cut.name(model.graph));
    several = several || cut.values.size() > 1;
    const auto features = FrozenProgram(model, {0}, cut.values).run({input});
    const auto output = FrozenProgram(model, cut.values, {model.graph.output}).run(features);
    CHECK(difference(output[0], whole) < 1e-5);
  }
  CHECK(several);
}

TEST_CASE_FIXTURE(Loaded, "every way to run layers gives the same, but for what bf16 rounds") {
  const std::vector<bool> all(model.graph.values.size(), true);
  for (const graph::Execution execution : graph::kExecutions) {
    CAPTURE(std::string(graph::name_of(execution)));
    for (const graph::Cut &cut : graph::enumerate_cuts(model.graph, all)) {
      CAPTURE(cut.name(model.graph));
      const auto expected = FrozenProgram(model, {0}, cut.values).run({input});
      const auto features = FrozenProgram(model, {0}, cut.values, execution).run({input});
      for (std::size_t i = 0; i < features.size(); ++i) {
        CHECK(features[i].is_floating_point());
        CHECK(features[i].element_size() == 4);
        CHECK(features[i].is_contiguous());
        const double error = difference(features[i], expected[i]);
        CHECK(error < (graph::exact(execution) ? 1e-5 : 3e-2));
        if (!graph::exact(execution) && cut.position > 0) CHECK(error > 1e-6);
      }
      const auto output = FrozenProgram(model, cut.values, {model.graph.output}, execution).run(features);
      CHECK(output[0].element_size() == 4);
    }
  }
}

TEST_CASE_FIXTURE(Loaded, "the value before an in-place operator keeps its negative numbers") {
  const auto features = FrozenProgram(model, {0}, {model.graph.find("bn1")}).run({input});
  CHECK((features[0] < 0).any().item<bool>());
}

TEST_CASE_FIXTURE(Loaded, "a record's features do not depend on its batch") {
  const FrozenProgram prefix(model, {0}, {model.graph.find("down")});
  const at::Tensor together = prefix.run({input})[0];
  for (std::int64_t i = 0; i < input.size(0); ++i)
    CHECK(difference(prefix.run({input.narrow(0, i, 1)})[0], together.narrow(0, i, 1)) < 1e-5);
}

TEST_CASE_FIXTURE(Loaded, "training split equals training unsplit, at every cut") {
  for (const char *scheme : {"", "down\\..*", "block\\..*|down\\..*"}) {
    CAPTURE(scheme);
    const Model trained = under(model, scheme);
    const auto frozen = graph::frozen(trained.graph);
    const auto cuts = graph::enumerate_cuts(trained.graph, frozen);
    REQUIRE(cuts.size() >= 3);
    const auto unsplit = train(trained, cuts.front(), input);
    CHECK(unsplit[2] < unsplit[0]);
    for (const graph::Cut &cut : cuts) {
      CAPTURE(cut.name(trained.graph));
      const auto split = train(trained, cut, input);
      for (std::size_t i = 0; i < split.size(); ++i)
        CHECK(split[i] == doctest::Approx(unsplit[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE_FIXTURE(Loaded, "statistics move where the layer trains, and nowhere else") {
  const Model trained = under(model, "block\\..*");
  const auto frozen = graph::frozen(trained.graph);
  const graph::Cut cut = graph::deepest_cut(trained.graph, frozen);
  const FrozenProgram prefix(trained, {0}, cut.values);
  const TrainedProgram program(trained, cut.values);
  CHECK(program.needs_batch_of_two());
  program.run(prefix.run({input}), false);
  CHECK(program.statistics().size() == 4);
  const auto changed = [&](const Model &now) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < now.parameters.size(); ++i)
      if (now.graph.parameters[i].buffer && !at::equal(now.parameters[i], trained.parameters[i]))
        names.insert(now.graph.parameters[i].name);
    return names;
  };
  CHECK(changed(program.trained(trained)).empty()); // evaluation moved nothing
  program.run(prefix.run({input}), true);
  const auto names = changed(program.trained(trained));
  CHECK(names.count("block.bn1.running_mean") == 1);
  CHECK(names.count("bn1.running_mean") == 0);
  CHECK(names.size() == 4);
  CHECK_FALSE(TrainedProgram(under(model, ""), cut.values).needs_batch_of_two());
}

TEST_CASE_FIXTURE(Loaded, "a new head starts the same whatever else trains with it") {
  const auto head = [](const Model &m) {
    for (std::size_t i = 0; i < m.parameters.size(); ++i)
      if (m.graph.parameters[i].name == "head.0.weight") return m.parameters[i];
    return at::Tensor();
  };
  const Model alone = under(model, ""), with_layers = under(model, "down\\..*");
  REQUIRE(head(alone).defined());
  CHECK(at::equal(head(alone), head(with_layers)));
  CHECK(head(alone).abs().max().item<double>() <= 0.25); // 1/sqrt(16)
}

TEST_CASE_FIXTURE(Loaded, "a written model is TorchScript with the same output and state_dict") {
  const Model trained = under(model, "down\\..*");
  const std::string copy = folder.path("nested/copy.pt");
  save_model(trained, copy, {{"tl.json", "{\"classes\": 3}"}});
  torch::jit::ExtraFilesMap extra{{"tl.json", ""}};
  torch::jit::Module loaded = torch::jit::load(copy, at::kCPU, extra);
  CHECK(extra.at("tl.json") == "{\"classes\": 3}");
  CHECK(read_extra(copy, "tl.json") == "{\"classes\": 3}");
  CHECK(read_extra(copy, "other.json").empty());
  std::set<std::string> names;
  for (const auto &named : loaded.named_parameters()) names.insert(named.name);
  CHECK(names.count("block.conv2.weight") == 1);
  CHECK(names.count("head.0.weight") == 1);
  CHECK(names.count("fc.weight") == 0);
  const at::Tensor expected = FrozenProgram(trained, {0}, {trained.graph.output}).run({input})[0];
  CHECK(difference(loaded.forward({input}).toTensor(), expected) < 1e-5);
  // What we write we read again, with the same hashes.
  const Model again = load_model(copy, test::kPicture, Digest());
  CHECK(again.graph.values[static_cast<std::size_t>(again.graph.find("down"))].hash ==
        trained.graph.values[static_cast<std::size_t>(trained.graph.find("down"))].hash);
}

TEST_CASE_FIXTURE(Loaded,
                  "values keep their names in a written model, also when training has changed parameters") {
  Model trained = under(model, "down\\..*");
  for (at::Tensor &parameter : trained.parameters)
    if (parameter.is_floating_point()) parameter = parameter.detach() + 0.25;
  const std::string copy = folder.path("trained.pt");
  save_model(trained, copy, {});
  const Model again = load_model(copy, test::kPicture, Digest());
  std::set<std::string> before, after;
  for (const graph::Value &value : trained.graph.values) before.insert(value.name);
  for (const graph::Value &value : again.graph.values) after.insert(value.name);
  CHECK(before == after);
}

TEST_CASE("tensors pass between the two libraries without a copy") {
  Tensor ours = Tensor::empty(DType::f32, {2, 3});
  for (int i = 0; i < 6; ++i) ours.as<float>()[i] = static_cast<float>(i);
  const at::Tensor theirs = to_torch(ours);
  CHECK(theirs.data_ptr() == ours.data.get());
  CHECK(from_torch(theirs).data.get() == ours.data.get());
  CHECK(hash_tensor(theirs) == hash_tensor(theirs.clone()));
  CHECK(hash_tensor(theirs) != hash_tensor(theirs.view({3, 2})));
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8, DType::i16,
                            DType::i32, DType::i64, DType::boolean})
    CHECK(dtype_of(scalar_type(dtype)) == dtype);
}
