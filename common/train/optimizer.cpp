#include "train/optimizer.h"

#include "train/update.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <array>

namespace tl::train {

namespace {
// Elements for which waking another thread pays; for a head, it takes longer than the whole step.
constexpr std::int64_t kElementsOfAThread = 1 << 19;

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
    if (all[0].scalar_type() == at::kDouble) {
      update<double>(lr, all);
    } else if (all[0].scalar_type() == at::kFloat) {
      update<float>(lr, all);
    } else { // halves are rounded once a step
      std::vector<at::Tensor> wide;
      for (const at::Tensor &tensor : all) wide.push_back(tensor.to(at::kFloat));
      update<float>(lr, wide);
      for (std::size_t t = 0; t < all.size(); ++t) all[t].copy_(wide[t]);
    }
  }
}

template <class T> void Optimizer::update(double lr, const std::vector<at::Tensor> &all) const {
  std::array<T *, 4> data{};
  for (std::size_t t = 0; t < all.size(); ++t) data.at(t) = all[t].data_ptr<T>();
  const SgdStep sgd{lr, momentum_, weight_decay_};
  const AdamStep adam{lr, weight_decay_, kind_ == OptimizerKind::adamw, steps_};
  at::parallel_for(0, all[0].numel(), kElementsOfAThread, [&](std::int64_t begin, std::int64_t end) {
    const auto part = [&](std::size_t t) { return data.at(t) ? data.at(t) + begin : nullptr; };
    if (kind_ == OptimizerKind::sgd)
      sgd_update(sgd, end - begin, part(0), part(1), part(2));
    else
      adam_update(adam, end - begin, part(0), part(1), part(2), part(3));
  });
}

} // namespace tl::train
