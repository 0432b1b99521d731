#include "profile/records.h"

#include <torch/torch.h>

namespace tl::profile {

at::Tensor random_records(const model::InputSpec &input, std::int64_t batch) {
  std::vector<std::int64_t> sizes = input.shape;
  sizes.insert(sizes.begin(), batch);
  return input.dtype == DType::i64 ? torch::randint(0, 2, sizes, at::kLong) : torch::randn(sizes);
}

} // namespace tl::profile
