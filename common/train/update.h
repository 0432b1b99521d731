// The arithmetic of one optimiser step over elements that lie one after the other, in one pass: LibTorch
// needs ten, each with a result of its own, and for a head they take longer than its matrix products.
#pragma once

#include <cstdint>

namespace tl::train {

struct SgdStep {
  double lr = 0, momentum = 0, weight_decay = 0;
};

/// `momentum` null: none is kept.
template <class T>
void sgd_update(const SgdStep &step, std::int64_t count, T *parameter, const T *gradient, T *momentum);

/// The step of torch.optim.Adam (`decoupled` false: weight decay is part of the gradient) or AdamW (true).
struct AdamStep {
  double lr = 0, weight_decay = 0;
  bool decoupled = false;
  std::int64_t count = 1; // steps, with this one
};

template <class T> void adam_update(const AdamStep &step, std::int64_t count, T *parameter, const T *gradient,
                                    T *mean, T *square);

} // namespace tl::train
