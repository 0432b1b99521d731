#include "train/optimizer.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace tl::train {

namespace {
// torch.optim's defaults, and nobody's first thing to tune.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

// Elements of which LibTorch computes on the calling thread, in cache lines. A step consists of many short
// operations; to wake threads for each takes longer than a step of a head.
constexpr std::int64_t kChunk = at::internal::GRAIN_SIZE - 64;
constexpr std::int64_t kChunksOfAThread = 16;

/// Calls update(part) with the same part of all of these tensors; of large ones, on several threads.
template <class Update> void in_parts(const std::vector<at::Tensor> &all, const Update &update) {
  const std::int64_t elements = all[0].numel();
  at::parallel_for(
      0, (elements + kChunk - 1) / kChunk, kChunksOfAThread, [&](std::int64_t begin, std::int64_t end) {
        const at::NoGradGuard no_grad; // is the thread's own
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          std::vector<at::Tensor> part;
          for (const at::Tensor &tensor : all)
            part.push_back(tensor.narrow(0, chunk * kChunk, std::min(kChunk, elements - chunk * kChunk)));
          update(part);
        }
      });
}

/// The elements as they lie in memory, for tensors without gaps.
at::Tensor flat(const at::Tensor &tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

/// The gradient, in the order of the parameter's elements in memory.
at::Tensor flat_gradient(const at::Tensor &parameter) {
  const at::Tensor &gradient = parameter.grad();
  if (gradient.strides() == parameter.strides()) return flat(gradient);
  return flat(at::empty_like(parameter, parameter.options().requires_grad(false)).copy_(gradient));
}
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
  ++steps_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    std::vector<at::Tensor> all = {flat(parameters_[i]), flat_gradient(parameters_[i])};
    for (const Slot &slot : slots_) all.push_back(flat(slot.tensors[i]));
    in_parts(all, [&](const std::vector<at::Tensor> &part) {
      if (kind_ == OptimizerKind::sgd)
        step_sgd(lr, part);
      else
        step_adam(lr, part);
    });
  }
}

void Optimizer::step_sgd(double lr, const std::vector<at::Tensor> &part) const {
  const at::Tensor &parameter = part[0];
  at::Tensor gradient = part[1];
  if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
  // From zero, the first step leaves the gradient itself in the momentum, as torch.optim does.
  if (momentum_ != 0) gradient = part[2].mul_(momentum_).add_(gradient);
  parameter.add_(gradient, -lr);
}

void Optimizer::step_adam(double lr, const std::vector<at::Tensor> &part) const {
  const auto count = static_cast<double>(steps_);
  const double correction1 = 1 - std::pow(kBeta1, count), correction2 = 1 - std::pow(kBeta2, count);
  const at::Tensor &parameter = part[0], &mean = part[2], &square = part[3];
  at::Tensor gradient = part[1];
  if (weight_decay_ != 0) {
    if (kind_ == OptimizerKind::adamw)
      parameter.mul_(1 - lr * weight_decay_);
    else
      gradient = gradient.add(parameter, weight_decay_);
  }
  mean.mul_(kBeta1).add_(gradient, 1 - kBeta1);
  square.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
  const at::Tensor scale = square.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
  parameter.addcdiv_(mean, scale, -lr / correction1);
}

} // namespace tl::train
