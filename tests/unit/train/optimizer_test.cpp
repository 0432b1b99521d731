// Our steps against torch::optim's, over the same gradients.
#include "train/optimizer.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

using namespace tl;
using train::OptimizerKind;
using train::TrainOptions;

namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

std::vector<at::Tensor> parameters(const Shapes &shapes, at::ScalarType type = at::kFloat) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  std::vector<at::Tensor> all;
  for (const std::vector<std::int64_t> &shape : shapes)
    all.push_back(torch::empty(shape).uniform_(-1, 1, generator).to(type).requires_grad_(true));
  return all;
}

std::unique_ptr<torch::optim::Optimizer> theirs(const TrainOptions &options,
                                                const std::vector<at::Tensor> &on) {
  using namespace torch::optim;
  if (options.optimizer == OptimizerKind::sgd)
    return std::make_unique<SGD>(
        on, SGDOptions(options.lr).momentum(options.momentum).weight_decay(options.weight_decay));
  if (options.optimizer == OptimizerKind::adam)
    return std::make_unique<Adam>(on, AdamOptions(options.lr).weight_decay(options.weight_decay));
  return std::make_unique<AdamW>(on, AdamWOptions(options.lr).weight_decay(options.weight_decay));
}

/// Largest difference of any parameter over so many steps of equal gradients.
double difference(const TrainOptions &options, double clip, const Shapes &shapes = {{4, 3}, {5}, {2, 3, 3}},
                  int steps = 30) {
  std::vector<at::Tensor> ours = parameters(shapes), other = parameters(shapes);
  train::Optimizer mine(options, ours);
  const auto reference = theirs(options, other);
  at::Generator generator = at::detail::createCPUGenerator(8);
  double largest = 0;
  for (int step = 0; step < steps; ++step) {
    mine.zero_grad();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = torch::empty(ours[i].sizes()).uniform_(-2, 2, generator);
      ours[i].mutable_grad() = gradient.clone();
      other[i].mutable_grad() = gradient.clone();
    }
    if (options.optimizer == OptimizerKind::sgd && ours.size() > 1 &&
        step % 2) { // a parameter without a gradient stays as it is
      ours[1].mutable_grad().reset();
      other[1].mutable_grad().reset();
    }
    if (clip > 0) {
      mine.clip(clip);
      torch::nn::utils::clip_grad_norm_(other, clip);
    }
    mine.step(options.lr);
    reference->step();
    for (std::size_t i = 0; i < ours.size(); ++i)
      largest = std::max(largest, (ours[i] - other[i]).abs().max().item<double>());
  }
  CHECK(mine.steps() == steps);
  return largest;
}

} // namespace

TEST_CASE("every optimiser steps as torch::optim does") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw})
    for (const double momentum : {0.0, 0.9})
      for (const double decay : {0.0, 0.1})
        for (const double clip : {0.0, 0.5}) {
          if (momentum > 0 && kind != OptimizerKind::sgd) continue;
          TrainOptions options;
          options.optimizer = kind;
          options.lr = 0.05;
          options.momentum = momentum;
          options.weight_decay = decay;
          CAPTURE(train::name_of(kind));
          CAPTURE(momentum);
          CAPTURE(decay);
          CHECK(difference(options, clip) < 2e-6);
        }
}

TEST_CASE("a parameter that several threads share steps as torch::optim does") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    TrainOptions options;
    options.optimizer = kind;
    CHECK(difference(options, 0, {{1031, 1033}}, 3) < 2e-6);
  }
}

TEST_CASE("parameters of other types step as those of 32 bits do, to their own precision") {
  TrainOptions options;
  options.lr = 0.05;
  options.optimizer = OptimizerKind::adam;
  std::vector<at::Tensor> reference = parameters({{7, 5}});
  train::Optimizer optimizer(options, reference);
  reference[0].mutable_grad() = reference[0].detach().clone();
  optimizer.step(options.lr);
  for (const auto &[type, tolerance] :
       {std::pair{at::kDouble, 1e-6}, {at::kBFloat16, 0.01}, {at::kHalf, 0.01}}) {
    std::vector<at::Tensor> other = parameters({{7, 5}}, type);
    train::Optimizer same(options, other);
    other[0].mutable_grad() = other[0].detach().clone();
    same.step(options.lr);
    CHECK((other[0].scalar_type() == type));
    CHECK((other[0].to(at::kFloat) - reference[0]).abs().max().item<double>() < tolerance);
  }
}
