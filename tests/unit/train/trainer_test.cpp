// One trainer: how batches are cut, what a step computes, when it stops, what it remembers.
#include "support/training.h"

#include "cli/error.h"

#include <doctest/doctest.h>

#include <limits>

using namespace tl;
using test::Points;
using train::OptimizerKind;
using train::Trainer;
using train::TrainOptions;

namespace {

TrainOptions sgd(std::int64_t batch, double lr = 0.1) {
  TrainOptions options;
  options.optimizer = OptimizerKind::sgd;
  options.lr = lr;
  options.momentum = 0.9;
  options.batch = batch;
  options.validation = 0;
  return options;
}

Trainer make(const train::Network &network, const TrainOptions &options) {
  return Trainer(network.model, network.start, 3, options);
}

/// Loss of each of `epochs` epochs over rows that come in pieces.
std::vector<double> losses(Trainer &trainer, const train::Rows &rows, std::int64_t piece, int epochs = 3) {
  std::vector<double> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t i = 0; i < rows.size(); i += piece)
      trainer.feed(test::part_of(rows, i, std::min(i + piece, rows.size())));
    all.push_back(trainer.end_epoch().loss);
    trainer.judge(std::nullopt);
  }
  return all;
}

/// The same by hand: torch::optim and torch's cross-entropy over the module itself.
std::vector<double> reference(const TrainOptions &options, const train::Rows &rows, const at::Tensor &weights,
                              int epochs) {
  test::Module net = test::point_net(true);
  net.train();
  std::vector<at::Tensor> parameters;
  for (const at::Tensor &parameter : net.parameters()) parameters.push_back(parameter.requires_grad_(true));
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(options.lr).momentum(options.momentum));
  std::vector<double> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double sum = 0, total = 0;
    for (std::int64_t i = 0; i < rows.size(); i += options.batch) {
      const std::int64_t n = std::min(options.batch, rows.size() - i);
      const at::Tensor labels = rows.labels.narrow(0, i, n);
      const at::Tensor logits = net.forward({rows.values[0].narrow(0, i, n)}).toTensor();
      auto how = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing);
      if (weights.defined()) how.weight(weights);
      const at::Tensor loss = torch::nn::functional::cross_entropy(logits, labels, how);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      const double weight =
          weights.defined() ? weights.index_select(0, labels).sum().item<double>() : double(n);
      sum += loss.item<double>() * weight;
      total += weight;
    }
    all.push_back(sum / total);
  }
  return all;
}

} // namespace

TEST_CASE("losses are those of a loop with torch::optim, batch-norm and class weights included") {
  const train::Chunk chunk = Points{50}.all();
  const train::Rows rows = test::rows_of(chunk);
  for (const bool balanced : {false, true})
    for (const double smoothing : {0.0, 0.2}) {
      TrainOptions options = sgd(8);
      options.label_smoothing = smoothing;
      if (balanced) options.class_weights = train::ClassWeights::balanced;
      at::Tensor weights;
      std::vector<std::int64_t> counts(3);
      for (const train::RecordInfo &record : chunk.records) ++counts[static_cast<std::size_t>(record.label)];
      if (balanced) {
        std::vector<float> balance;
        for (const std::int64_t count : counts) balance.push_back(50.0F / static_cast<float>(3 * count));
        weights = at::tensor(balance);
      }
      const train::Network network = test::point_network(true);
      Trainer trainer = make(network, options);
      CHECK(trainer.needs_counts() == balanced);
      trainer.set_counts(counts);
      CHECK(test::largest_difference(losses(trainer, rows, 50), reference(options, rows, weights, 3)) < 1e-5);
    }
}

TEST_CASE("batches come from the sequence, never from the pieces") {
  const train::Chunk chunk = Points{23}.all();
  const train::Rows rows = test::rows_of(chunk);
  for (const bool norm : {false, true}) {
    const train::Network network = test::point_network(norm);
    Trainer whole = make(network, sgd(5));
    const std::vector<double> expected = losses(whole, rows, 23);
    CHECK(whole.steps() == 3 * 5);
    for (const std::int64_t piece : {1, 2, 4, 5, 6, 22}) {
      Trainer trainer = make(network, sgd(5));
      CHECK(losses(trainer, rows, piece) == expected);
    }
  }
}

TEST_CASE("a last record that would be alone in a batch-norm's batch joins the batch before") {
  const train::Network with = test::point_network(true), without = test::point_network(false);
  for (const auto &[records, batch, steps_with, steps_without] : std::vector<std::array<std::int64_t, 4>>{
           {5, 2, 2, 3}, {5, 4, 1, 2}, {6, 4, 2, 2}, {4, 4, 1, 1}, {3, 8, 1, 1}}) {
    const train::Chunk chunk = Points{records}.all();
    for (const std::int64_t piece : {std::int64_t{1}, records}) {
      Trainer trainer = make(with, sgd(batch));
      losses(trainer, test::rows_of(chunk), piece, 1);
      CHECK(trainer.steps() == steps_with);
      Trainer other = make(without, sgd(batch));
      losses(other, test::rows_of(chunk), piece, 1);
      CHECK(other.steps() == steps_without);
    }
  }
}

TEST_CASE("a batch-norm cannot train on single records") {
  const train::Network network = test::point_network(true);
  CHECK_THROWS_AS(make(network, sgd(1)), UsageError);
  const train::Chunk chunk = Points{1}.all();
  Trainer trainer = make(network, sgd(4));
  CHECK_THROWS_AS(losses(trainer, test::rows_of(chunk), 1), Error);
  // A batch-norm that is frozen does not mind.
  const train::Network frozen = test::point_network(true, "fc\\..*");
  Trainer head(frozen.model, frozen.arriving, 3, sgd(1));
  CHECK(losses(head, test::rows_of(chunk), 1).size() == 3);
}

TEST_CASE("a loss that is not finite stops with the step and the records") {
  const train::Network network = test::point_network(false);
  train::Chunk chunk = Points{12}.all();
  const auto message = [&](Trainer &trainer) -> std::string {
    try {
      losses(trainer, test::rows_of(chunk), 12, 5);
    } catch (const train::NotFinite &error) {
      return error.what();
    }
    return "";
  };
  Trainer wild = make(network, sgd(4, 1e30));
  CHECK(message(wild).find("step 2") != std::string::npos);
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    chunk = Points{12}.all();
    chunk.values[0].as<float>()[9 * 4 + 1] = value;
    Trainer trainer = make(network, sgd(4));
    const std::string text = message(trainer);
    CHECK(text.find("step 3") != std::string::npos);
    CHECK(text.find("point/9") != std::string::npos);
    CHECK(text.find("point/8") == std::string::npos);
  }
}

TEST_CASE("parameters that explode in the last step are noticed, and a NaN is never the best") {
  const train::Network network = test::point_network(false);
  const train::Chunk chunk = Points{4}.all();
  const train::Rows rows = test::rows_of(chunk);
  TrainOptions options = sgd(4, 1e38);
  options.momentum = 0;
  Trainer trainer = make(network, options);
  trainer.feed(rows); // one step: its own loss is fine
  CHECK_NOTHROW(trainer.end_epoch());
  train::Evaluation evaluation(3);
  trainer.evaluate(rows, evaluation);
  CHECK(!std::isfinite(evaluation.loss()));
  CHECK_THROWS_AS(trainer.judge(evaluation), train::NotFinite);
  CHECK(trainer.best_epoch() == 0);
  CHECK_THROWS_AS(trainer.best(), Error);
}

TEST_CASE("the best epoch's parameters are kept, and patience ends training") {
  const train::Network network = test::point_network(false);
  const train::Chunk chunk = Points{30}.all();
  const train::Rows rows = test::rows_of(chunk);
  TrainOptions options = sgd(8);
  options.validation = 0.2;
  options.patience = 2;
  options.monitor = train::Monitor::accuracy;
  Trainer trainer = make(network, options);
  at::Tensor best_logits;
  // Made-up validation results: 2 of 4 right, 3, 3 (no better), 1.
  const int right[] = {2, 3, 3, 1};
  for (int epoch = 0; epoch < 4; ++epoch) {
    trainer.feed(rows);
    trainer.end_epoch();
    train::Evaluation evaluation(3);
    at::Tensor logits = torch::zeros({4, 3});
    for (int i = 0; i < 4; ++i) logits[i][i < right[epoch] ? 0 : 1] = 1;
    evaluation.add(logits, torch::zeros({4}, at::kLong));
    CHECK(trainer.judge(evaluation) == (epoch < 2));
    if (epoch == 1) best_logits = trainer.logits(rows.values).clone();
    CHECK(trainer.finished() == (epoch == 3));
  }
  CHECK(trainer.best_epoch() == 2);
  CHECK(trainer.out_of_patience());
  CHECK(at::allclose(trainer.best_logits(rows.values), best_logits));
  CHECK(!at::allclose(trainer.logits(rows.values), best_logits));
}

TEST_CASE("a state continues exactly, for every optimiser") {
  const train::Network network = test::point_network(true);
  const train::Chunk chunk = Points{30}.all();
  const train::Rows rows = test::rows_of(chunk);
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    TrainOptions options = sgd(7, 0.02);
    options.optimizer = kind;
    if (kind != OptimizerKind::sgd) options.momentum = 0;
    options.schedule = train::Schedule::parse("cosine");
    options.warmup = 9; // longer than an epoch
    Trainer through = make(network, options);
    losses(through, rows, 30, 2);
    const train::TrainerState state = through.state();
    Trainer resumed = make(network, options);
    resumed.restore(state, "test");
    CHECK(resumed.epoch() == 2);
    CHECK(resumed.steps() == through.steps());
    CHECK(losses(resumed, rows, 30, 3) == losses(through, rows, 30, 3));
    CHECK(at::equal(resumed.best_logits(rows.values), through.best_logits(rows.values)));
  }
}

TEST_CASE("a state that does not fit is refused by name") {
  const train::Network network = test::point_network(true);
  const train::Chunk chunk = Points{30}.all();
  Trainer trainer = make(network, sgd(7));
  losses(trainer, test::rows_of(chunk), 30, 1);
  const train::TrainerState good = trainer.state();
  const auto refused = [&](const train::TrainerState &state) {
    Trainer other = make(network, sgd(7));
    CHECK_THROWS_AS(other.restore(state, "the file"), FormatError);
  };
  for (std::size_t i = 0; i < good.tensors.size(); ++i) {
    train::TrainerState missing = good;
    missing.tensors.erase(missing.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    refused(missing);
    train::TrainerState other = good;
    other.tensors[i].tensor = Tensor::empty(DType::f32, {1, 1, 1});
    refused(other);
  }
  for (const char *key : {"epoch", "steps", "best_epoch", "best_score"}) {
    train::TrainerState odd = good;
    odd.progress.erase(key);
    refused(odd);
    odd.progress[key] = "x";
    refused(odd);
  }
}
