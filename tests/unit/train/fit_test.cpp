// The loop: the same losses however the records come, are cut, kept or shared.
#include "support/training.h"

#include "cli/error.h"
#include "graph/cut.h"
#include "model/export.h"
#include "train/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using test::Losses;
using test::MemorySource;
using test::Points;
using train::Features;
using train::Trainer;
using train::TrainOptions;

namespace {

TrainOptions options() {
  TrainOptions result;
  result.epochs = 4;
  result.batch = 5;
  result.lr = 0.02;
  result.validation = 0.3;
  return result;
}

Features points(const train::Network &network, const train::Chunk &chunk,
                train::FeatureOptions how = {1 << 20, 0}) {
  return Features(std::make_unique<MemorySource>(chunk, 3), network.frozen, 3, how);
}

Losses losses(const train::Network &network, const train::Chunk &chunk, const TrainOptions &how,
              train::FeatureOptions memory = {1 << 20, 0}) {
  Features features = points(network, chunk, memory);
  Trainer trainer(network.model, network.start, 3, how);
  return test::fit_losses(features, trainer);
}

std::string refusal(const train::Chunk &chunk, const TrainOptions &how) {
  try {
    losses(test::point_network(false), chunk, how);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

/// Losses of training `network`, which the values that it takes arrive for, made from `pictures` by the
/// frozen layers of `whole`, which takes the pictures themselves.
Losses losses_of_part(const train::Network &network, const train::Network &whole,
                      const at::Tensor &pictures) {
  std::vector<at::Tensor> values{pictures};
  if (network.arriving != whole.arriving)
    values = model::FrozenProgram(whole.model, {0}, network.arriving).run(values);
  train::Chunk chunk = Points{pictures.size(0)}.all();
  chunk.values.clear();
  for (const at::Tensor &value : values) chunk.values.push_back(model::from_torch(value));
  return losses(network, chunk, options());
}

/// A convolutional network and pictures for it.
struct Pretrained {
  test::TempFolder folder;
  model::Model model =
      model::load_model(test::save(test::conv_net(), folder.path("net.pt")), test::kPicture, Digest());
  at::Tensor pictures = test::Draws(5).uniform({30, 3, 8, 8}, 0, 1);
};

} // namespace

TEST_CASE("losses do not depend on chunks, memory or the arrival's pieces") {
  const train::Network network = test::point_network(false, "fc\\..*");
  const train::Chunk chunk = Points{43}.all();
  const Losses expected = losses(network, chunk, options());
  CHECK(expected.size() == 8);
  CHECK(expected[6] < expected[0]);
  for (const std::int64_t memory : {0, 300, 100000})
    for (const std::int64_t size : {1, 3, 7, 64})
      CHECK(test::largest_difference(expected, losses(network, chunk, options(), {memory, size})) < 1e-6);
}

TEST_CASE("losses do not depend on the cut") {
  const Pretrained pretrained;
  graph::Scheme scheme;
  scheme.head = graph::Head::parse("linear");
  scheme.train = "down\\..*";
  Losses expected;
  for (const char *cut : {"input", "conv1", "bn1", "block"}) {
    const train::Network network = train::make_network(pretrained.model, scheme, 3, 7, cut);
    const train::Network whole = train::make_network(pretrained.model, scheme, 3, 7, "input");
    const Losses found = losses_of_part(network, whole, pretrained.pictures);
    if (expected.empty()) expected = found;
    CHECK(test::largest_difference(expected, found) < 1e-5);
  }
}

TEST_CASE("losses do not depend on the cut under any scheme") {
  const Pretrained pretrained;
  std::vector<graph::Scheme> schemes(4);
  for (graph::Scheme &scheme : schemes) scheme.head = graph::Head{};
  schemes[0].features = "bn1+block+down";
  schemes[1].features = "sum:bn1+block";
  schemes[2].unfreeze = 1;
  schemes[3].adapters = graph::Adapters{3, 1};
  for (const graph::Scheme &scheme : schemes) {
    CAPTURE(json::compact(graph::to_json(scheme)));
    const train::Network whole = train::make_network(pretrained.model, scheme, 3, 7, "input");
    const graph::Graph &graph = whole.model.graph;
    const auto cuts = graph::enumerate_cuts(graph, graph::frozen(graph));
    REQUIRE(cuts.size() >= 3);
    Losses expected;
    for (const std::size_t c : {std::size_t{0}, cuts.size() / 2, cuts.size() - 1}) {
      const train::Network network = train::make_network(pretrained.model, scheme, 3, 7, cuts[c].name(graph));
      const Losses found = losses_of_part(network, whole, pretrained.pictures);
      if (expected.empty()) expected = found;
      CHECK(test::largest_difference(expected, found) < 1e-5);
    }
  }
}

TEST_CASE("an untrained adapter changes nothing, a trained one does, and both are exported") {
  const Pretrained pretrained;
  const at::Tensor &pictures = pretrained.pictures;
  graph::Scheme plain, adapted;
  plain.head = adapted.head = graph::Head{};
  adapted.adapters = graph::Adapters{3, 0};
  const train::Network before = train::make_network(pretrained.model, plain, 3, 7, "input");
  const train::Network network = train::make_network(pretrained.model, adapted, 3, 7, "input");
  const auto logits = [&](const model::Model &model) {
    return model::TrainedProgram(model, {0}).run({pictures}, false).detach();
  };
  CHECK(logits(network.model).equal(logits(before.model)));
  train::Chunk chunk = Points{30}.all();
  chunk.values = {model::from_torch(pictures)};
  Features features = points(network, chunk);
  Trainer trainer(network.model, network.start, 3, options());
  test::fit_losses(features, trainer);
  const at::Tensor trained = logits(trainer.best());
  CHECK_FALSE(trained.allclose(logits(before.model), 1e-3, 1e-3));
  const std::string file = pretrained.folder.path("adapted.pt");
  model::save_model(trainer.best(), file, {});
  CHECK(torch::jit::load(file).forward({pictures}).toTensor().allclose(trained, 1e-5, 1e-6));
  // What is adapted can be adapted again: the blocks are still told from the names in the file.
  const model::Model again = model::load_model(file, test::kPicture, Digest());
  graph::Scheme next;
  next.head = graph::Head{};
  next.unfreeze = 2;
  CHECK_NOTHROW(model::apply_scheme(again, next, 3));
}

TEST_CASE("epochs after the first do not depend on the order of arrival, validation never does") {
  const train::Network network = test::point_network(false, "fc\\..*");
  const train::Chunk chunk = Points{43}.all();
  train::Chunk other = chunk;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < 43; ++i) places.push_back((i * 10) % 43);
  for (std::size_t i = 0; i < places.size(); ++i)
    other.records[i] = chunk.records[static_cast<std::size_t>(places[i])];
  other.values[0] = test::rows_of(chunk.values[0], places);
  TrainOptions how = options();
  how.lr = 0; // so that the first epoch leaves no trace
  CHECK(test::largest_difference(losses(network, chunk, how), losses(network, other, how)) < 1e-6);
  Features a = points(network, chunk), b = points(network, other);
  a.drain();
  b.drain();
  const auto ids = [&](const Features &features) {
    std::vector<std::string> found;
    for (const std::int64_t position : train::partition(features, 3, how).validation)
      found.push_back(features.records()[static_cast<std::size_t>(position)].id);
    std::sort(found.begin(), found.end());
    return found;
  };
  CHECK(ids(a) == ids(b));
  CHECK(!ids(a).empty());
  CHECK(train::records_digest(a.records()) == train::records_digest(b.records()));
}

TEST_CASE("several trainers in one pass give what each gives alone") {
  const train::Network network = test::point_network(true);
  const train::Chunk chunk = Points{43}.all();
  std::vector<TrainOptions> candidates(3, options());
  candidates[1].batch = 7;
  candidates[1].optimizer = train::OptimizerKind::sgd;
  candidates[2].lr = 0.1;
  candidates[2].epochs = 2;
  candidates[2].class_weights = train::ClassWeights::balanced;
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<Trainer *> pointers;
  for (const TrainOptions &candidate : candidates) {
    trainers.push_back(std::make_unique<Trainer>(network.model, network.start, 3, candidate));
    pointers.push_back(trainers.back().get());
  }
  std::vector<Losses> together(3);
  Features features = points(network, chunk);
  train::fit(features, pointers, [&](std::size_t index, const train::EpochResult &result) {
    together[index].push_back(result.train.loss);
    together[index].push_back(result.validation->loss());
  });
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(test::largest_difference(together[i], losses(network, chunk, candidates[i])) < 1e-6);
  candidates[1].seed = 5;
  Trainer other(network.model, network.start, 3, candidates[1]);
  CHECK_THROWS_AS(train::fit(features, {pointers[0], &other}, [](std::size_t, const train::EpochResult &) {}),
                  Error);
}

TEST_CASE("one that fails, stops early or pauses leaves the others as they are") {
  const train::Network network = test::point_network(true);
  const train::Chunk chunk = Points{43}.all();
  std::vector<TrainOptions> candidates(4, options());
  candidates[0].optimizer = train::OptimizerKind::sgd;
  candidates[0].lr = 1e38;
  candidates[1].lr = 0.5; // does not get better for long
  candidates[1].patience = 1;
  candidates[1].epochs = 12;
  candidates[2].batch = 8;
  candidates[2].epochs = 6;
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<train::Seat> seats(4);
  for (std::size_t i = 0; i < 4; ++i) {
    trainers.push_back(std::make_unique<Trainer>(network.model, network.start, 3, candidates[i]));
    seats[i].trainer = trainers.back().get();
  }
  seats[3].until = 2;
  std::vector<Losses> together(4);
  std::vector<std::size_t> broken;
  train::FitEvents events;
  events.done = [&](std::size_t seat, const train::EpochResult &result) {
    together[seat].push_back(result.train.loss);
    together[seat].push_back(result.validation->loss());
  };
  events.failed = [&](std::size_t seat, std::exception_ptr error) {
    CHECK_THROWS_AS(std::rethrow_exception(error), train::NotFinite);
    broken.push_back(seat);
    return true;
  };
  Features features = points(network, chunk);
  train::fit(features, seats, events);
  CHECK(broken == std::vector<std::size_t>{0});
  CHECK(together[0].empty());
  CHECK(trainers[1]->out_of_patience());
  CHECK(trainers[1]->epoch() < 6);
  for (const std::size_t i : {1, 2})
    CHECK(test::largest_difference(together[i], losses(network, chunk, candidates[i])) < 1e-6);
  CHECK(trainers[3]->epoch() == 2);
  seats[3].until = 4;                       // and goes on as if it had not paused
  train::fit(features, {seats[3]}, events); // which is seat 0 of this pass
  together[3].insert(together[3].end(), together[0].begin(), together[0].end());
  CHECK(test::largest_difference(together[3], losses(network, chunk, candidates[3])) < 1e-6);

  events.failed = [](std::size_t, std::exception_ptr) { return false; };
  Trainer again(network.model, network.start, 3, candidates[0]);
  seats[0].trainer = &again;
  CHECK_THROWS_AS(train::fit(features, {seats[0]}, events), train::NotFinite);
}

TEST_CASE("trainers of one pass may read different columns of its rows") {
  const train::Network network = test::point_network(false);
  train::Chunk both = Points{43}.all();
  const train::Chunk first = both;
  train::Chunk second = Points{43, 3, 4, 0.7, 9}.all();
  second.records = both.records;
  both.values.push_back(second.values[0]);
  std::vector<std::unique_ptr<Trainer>> trainers;
  std::vector<train::Seat> seats(2);
  for (std::size_t i = 0; i < 2; ++i) {
    trainers.push_back(std::make_unique<Trainer>(network.model, network.start, 3, options()));
    seats[i].trainer = trainers.back().get();
    seats[i].columns = {i};
  }
  std::vector<Losses> together(2);
  train::FitEvents events;
  events.done = [&](std::size_t seat, const train::EpochResult &result) {
    together[seat].push_back(result.train.loss);
    together[seat].push_back(result.validation->loss());
  };
  Features features(std::make_unique<MemorySource>(both, 3), nullptr, 3, {1 << 20, 0});
  train::fit(features, seats, events);
  CHECK(test::largest_difference(together[0], losses(network, first, options())) < 1e-6);
  CHECK(test::largest_difference(together[1], losses(network, second, options())) < 1e-6);
  CHECK(test::largest_difference(together[0], together[1]) > 1e-3);
}

TEST_CASE("a resumed training has the losses of one that ran through") {
  const train::Network network = test::point_network(true);
  const train::Chunk chunk = Points{43}.all();
  const Losses expected = losses(network, chunk, options());
  for (int stop = 1; stop < 4; ++stop) {
    TrainOptions shorter = options();
    shorter.epochs = stop;
    Features before = points(network, chunk);
    Trainer first(network.model, network.start, 3, shorter);
    Losses found = test::fit_losses(before, first);
    Features after = points(network, chunk); // records arrive anew
    Trainer second(network.model, network.start, 3, options());
    second.restore(first.state(), "test");
    const Losses rest = test::fit_losses(after, second);
    found.insert(found.end(), rest.begin(), rest.end());
    CHECK(found == expected);
  }
}

TEST_CASE("without validation the last epoch is the best") {
  const train::Network network = test::point_network(false);
  TrainOptions how = options();
  how.validation = 0;
  Features features = points(network, Points{20}.all());
  Trainer trainer(network.model, network.start, 3, how);
  CHECK(test::fit_losses(features, trainer).size() == 4);
  CHECK(trainer.best_epoch() == 4);
}

TEST_CASE("data that nothing can be learned from is refused in words") {
  train::Chunk one = Points{20}.all();
  for (train::RecordInfo &record : one.records) record.label = 1;
  CHECK(refusal(one, options()).find("one class") != std::string::npos);
  train::Chunk none;
  CHECK(refusal(none, options()).find("no records") != std::string::npos);
  TrainOptions most = options();
  most.validation = 0.99;
  CHECK(refusal(Points{3}.all(), most).find("lower the validation share") != std::string::npos);
  TrainOptions few = options();
  few.validation = 1e-6;
  CHECK(refusal(Points{9}.all(), few).find("validation share") != std::string::npos);
  for (const auto weights : {train::ClassWeights::none, train::ClassWeights::balanced}) {
    TrainOptions early = options();
    early.class_weights = weights;
    CHECK(refusal(one, early).find("one class") != std::string::npos);
  }
}
