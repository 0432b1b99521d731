// Our steps against torch::optim's, over the same gradients.
#include "train/optimizer.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

using namespace tl;
using train::OptimizerKind;
using train::TrainOptions;

namespace {

std::vector<at::Tensor> parameters() {
  at::Generator generator = at::detail::createCPUGenerator(3);
  std::vector<at::Tensor> all;
  for (const std::vector<std::int64_t> &shape : {std::vector<std::int64_t>{4, 3}, {5}, {2, 3, 3}})
    all.push_back(torch::empty(shape).uniform_(-1, 1, generator).requires_grad_(true));
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

/// Largest difference of any parameter over 30 steps of equal gradients.
double difference(const TrainOptions &options, double clip) {
  std::vector<at::Tensor> ours = parameters(), other = parameters();
  train::Optimizer mine(options, ours);
  const auto reference = theirs(options, other);
  at::Generator generator = at::detail::createCPUGenerator(8);
  double largest = 0;
  for (int step = 0; step < 30; ++step) {
    mine.zero_grad();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = torch::empty(ours[i].sizes()).uniform_(-2, 2, generator);
      ours[i].mutable_grad() = gradient.clone();
      other[i].mutable_grad() = gradient.clone();
    }
    if (options.optimizer == OptimizerKind::sgd &&
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
  CHECK(mine.steps() == 30);
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
