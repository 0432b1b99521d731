#include "train/update.h"

#include <cmath>

namespace tl::train {

namespace {

// torch.optim's defaults, and nobody's first thing to tune.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

// Compiled for what every processor has, and where the processor has it, for wider registers. Products and
// sums are rounded apart (-ffp-contract=off), so that both give the same bits.
#ifdef __x86_64__
const bool has_avx2 = __builtin_cpu_supports("avx2");
#define TL_AVX2 [[gnu::target("avx2")]]
#endif
#define TL_INLINE [[gnu::always_inline]] inline

template <class T> TL_INLINE void sgd_loop(const SgdStep &step, std::int64_t count, T *__restrict parameter,
                                           const T *__restrict gradient, T *__restrict momentum) {
  const auto lr = static_cast<T>(step.lr), decay = static_cast<T>(step.weight_decay);
  const auto keep = static_cast<T>(step.momentum);
  if (!momentum) {
    for (std::int64_t i = 0; i < count; ++i) parameter[i] -= lr * (gradient[i] + decay * parameter[i]);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    // From zero, the first step leaves the gradient itself in the momentum, as torch.optim does.
    momentum[i] = keep * momentum[i] + (gradient[i] + decay * parameter[i]);
    parameter[i] -= lr * momentum[i];
  }
}

template <class T> TL_INLINE void adam_loop(const AdamStep &step, std::int64_t count, T *__restrict parameter,
                                            const T *__restrict gradient, T *__restrict mean,
                                            T *__restrict square) {
  const auto steps = static_cast<double>(step.count);
  const auto beta1 = static_cast<T>(kBeta1), beta2 = static_cast<T>(kBeta2),
             epsilon = static_cast<T>(kEpsilon);
  const auto fresh1 = static_cast<T>(1 - kBeta1), fresh2 = static_cast<T>(1 - kBeta2);
  const auto root = static_cast<T>(std::sqrt(1 - std::pow(kBeta2, steps)));
  const auto rate = static_cast<T>(step.lr / (1 - std::pow(kBeta1, steps)));
  const auto decay = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  const auto keep = static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const T slope = gradient[i] + decay * parameter[i];
    mean[i] = beta1 * mean[i] + fresh1 * slope;
    square[i] = beta2 * square[i] + fresh2 * slope * slope;
    parameter[i] = keep * parameter[i] - rate * mean[i] / (std::sqrt(square[i]) / root + epsilon);
  }
}

#ifdef __x86_64__
template <class T>
TL_AVX2 void sgd_avx2(const SgdStep &step, std::int64_t count, T *parameter, const T *gradient, T *momentum) {
  sgd_loop(step, count, parameter, gradient, momentum);
}

template <class T> TL_AVX2 void adam_avx2(const AdamStep &step, std::int64_t count, T *parameter,
                                          const T *gradient, T *mean, T *square) {
  adam_loop(step, count, parameter, gradient, mean, square);
}
#endif

} // namespace

template <class T>
void sgd_update(const SgdStep &step, std::int64_t count, T *parameter, const T *gradient, T *momentum) {
#ifdef __x86_64__
  if (has_avx2) return sgd_avx2(step, count, parameter, gradient, momentum);
#endif
  sgd_loop(step, count, parameter, gradient, momentum);
}

template <class T> void adam_update(const AdamStep &step, std::int64_t count, T *parameter, const T *gradient,
                                    T *mean, T *square) {
#ifdef __x86_64__
  if (has_avx2) return adam_avx2(step, count, parameter, gradient, mean, square);
#endif
  adam_loop(step, count, parameter, gradient, mean, square);
}

template void sgd_update(const SgdStep &, std::int64_t, float *, const float *, float *);
template void sgd_update(const SgdStep &, std::int64_t, double *, const double *, double *);
template void adam_update(const AdamStep &, std::int64_t, float *, const float *, float *, float *);
template void adam_update(const AdamStep &, std::int64_t, double *, const double *, double *, double *);

} // namespace tl::train
