// How far values are from what they should be.
#pragma once

#include <ATen/core/Tensor.h>

namespace tl::profile {

struct Deviation {
  double rms =
      0; // root mean square of the difference / that of the values; of the difference alone where all are 0
  double max = 0; // the largest difference / the largest magnitude; the difference itself where all are 0
};

/// Of tensors of one shape, in double precision.
Deviation deviation(const at::Tensor &values, const at::Tensor &wanted);

} // namespace tl::profile
