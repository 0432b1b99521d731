// SGD with momentum, Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019), step for step
// as torch.optim computes them. Not torch::optim itself: its state is keyed by addresses in a form that
// differs between LibTorch versions, and an exact resume needs it by name.
#pragma once

#include "train/options/options.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace tl::train {

class Optimizer {
public:
  /// `parameters`: leaves; they are changed in place by step().
  Optimizer(const TrainOptions &options, std::vector<at::Tensor> parameters);

  /// Forgets the gradients. Call before backward().
  void zero_grad();
  /// Scales all gradients so that their common 2-norm is at most `norm`, as clip_grad_norm_ does.
  void clip(double norm);
  /// One step with this learning rate.
  void step(double lr);

  /// Buffers per parameter: "momentum"; "mean" and "square". Created at the first step.
  struct Slot {
    std::string name;
    std::vector<at::Tensor> tensors; // one per parameter
  };
  const std::vector<Slot> &slots() const { return slots_; }
  std::vector<Slot> &slots() { return slots_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

private:
  /// On a parameter, its gradient and its slots.
  template <class T> void update(double lr, const std::vector<at::Tensor> &all) const;

  OptimizerKind kind_;
  double momentum_, weight_decay_;
  std::vector<at::Tensor> parameters_;
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;
};

} // namespace tl::train
