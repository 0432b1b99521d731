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

/// Calls update(begin, count) for parts of so many elements; of large tensors, on several threads.
template <class Update> void in_chunks(std::int64_t elements, const Update &update) {
  at::parallel_for(0, (elements + kChunk - 1) / kChunk, kChunksOfAThread,
                   [&](std::int64_t begin, std::int64_t end) {
                     const at::NoGradGuard no_grad; // is the thread's own
                     for (std::int64_t chunk = begin; chunk < end; ++chunk)
                       update(chunk * kChunk, std::min(kChunk, elements - chunk * kChunk));
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
  const at::NoGradGuard no_grad;
  if (kind_ == OptimizerKind::sgd)
    step_sgd(lr);
  else
    step_adam(lr);
  ++steps_;
}

void Optimizer::step_sgd(double lr) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    const at::Tensor all = flat(parameters_[i]), gradients = flat_gradient(parameters_[i]);
    const at::Tensor buffers = momentum_ != 0 ? flat(slots_[0].tensors[i]) : at::Tensor();
    in_chunks(all.numel(), [&](std::int64_t begin, std::int64_t count) {
      at::Tensor parameter = all.narrow(0, begin, count), gradient = gradients.narrow(0, begin, count);
      if (weight_decay_ != 0) gradient = gradient.add(parameter, weight_decay_);
      if (momentum_ != 0) {
        // From zero, the first step leaves the gradient itself in the buffer, as torch.optim does.
        gradient = buffers.narrow(0, begin, count).mul_(momentum_).add_(gradient);
      }
      parameter.add_(gradient, -lr);
    });
  }
}

void Optimizer::step_adam(double lr) {
  const auto count = static_cast<double>(steps_ + 1);
  const double correction1 = 1 - std::pow(kBeta1, count), correction2 = 1 - std::pow(kBeta2, count);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    const at::Tensor all = flat(parameters_[i]), gradients = flat_gradient(parameters_[i]);
    const at::Tensor means = flat(slots_[0].tensors[i]), squares = flat(slots_[1].tensors[i]);
    in_chunks(all.numel(), [&](std::int64_t begin, std::int64_t size) {
      at::Tensor parameter = all.narrow(0, begin, size), gradient = gradients.narrow(0, begin, size);
      if (weight_decay_ != 0) {
        if (kind_ == OptimizerKind::adamw)
          parameter.mul_(1 - lr * weight_decay_);
        else
          gradient = gradient.add(parameter, weight_decay_);
      }
      at::Tensor mean = means.narrow(0, begin, size), square = squares.narrow(0, begin, size);
      mean.mul_(kBeta1).add_(gradient, 1 - kBeta1);
      square.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
      const at::Tensor scale = square.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
      parameter.addcdiv_(mean, scale, -lr / correction1);
    });
  }
}

} // namespace tl::train
