#include "profile/deviation.h"

#include <torch/torch.h>

namespace tl::profile {

Deviation deviation(const at::Tensor &values, const at::Tensor &wanted) {
  if (wanted.numel() == 0) return {};
  const at::Tensor want = wanted.to(at::kDouble), difference = values.to(at::kDouble) - want;
  const auto relative = [](double error, double scale) { return scale > 0 ? error / scale : error; };
  return {relative(difference.norm().item<double>(), want.norm().item<double>()),
          relative(difference.abs().max().item<double>(), want.abs().max().item<double>())};
}

} // namespace tl::profile
