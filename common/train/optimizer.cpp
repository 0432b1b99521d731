#include "train/optimizer.h"

#include <torch/torch.h>

#include <cmath>

namespace tl::train {

namespace {
// torch.optim's defaults, and nobody's first thing to tune.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
} // namespace

Optimizer::Optimizer(const TrainOptions &options, std::vector<at::Tensor> parameters)
    : kind_(options.optimizer), momentum_(options.momentum), weight_decay_(options.weight_decay),
      parameters_(std::move(parameters)) {
  std::vector<std::string> names;
  if (kind_ != OptimizerKind::sgd)
    names = {"mean", "square"};
  else if (momentum_ != 0)
    names = {"momentum"};
  for (const std::string &name : names) {
    slots_.push_back({name, {}});
    for (const at::Tensor &parameter : parameters_)
      slots_.back().tensors.push_back(at::zeros_like(parameter));
  }
}

void Optimizer::zero_grad() {
  for (at::Tensor &parameter : parameters_) parameter.mutable_grad().reset();
}

void Optimizer::clip(double norm) { torch::nn::utils::clip_grad_norm_(parameters_, norm); }

void Optimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  if (kind_ == OptimizerKind::sgd)
    step_sgd(lr);
  else
    step_adam(lr);
  ++steps_;
}

void Optimizer::step_sgd(double lr) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor &parameter = parameters_[i];
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
    if (momentum_ != 0) {
      // From zero, the first step leaves the gradient itself in the buffer, as torch.optim does.
      at::Tensor &buffer = slots_[0].tensors[i];
      buffer.mul_(momentum_).add_(gradient);
      gradient = buffer;
    }
    parameter.add_(gradient, -lr);
  }
}

void Optimizer::step_adam(double lr) {
  const auto count = static_cast<double>(steps_ + 1);
  const double correction1 = 1 - std::pow(kBeta1, count), correction2 = 1 - std::pow(kBeta2, count);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor &parameter = parameters_[i];
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (weight_decay_ != 0) {
      if (kind_ == OptimizerKind::adamw)
        parameter.mul_(1 - lr * weight_decay_);
      else
        gradient = gradient.add(parameter, weight_decay_);
    }
    at::Tensor &mean = slots_[0].tensors[i], &square = slots_[1].tensors[i];
    mean.mul_(kBeta1).add_(gradient, 1 - kBeta1);
    square.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
    const at::Tensor scale = square.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
    parameter.addcdiv_(mean, scale, -lr / correction1);
  }
}

} // namespace tl::train
