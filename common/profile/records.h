// Records made up where there is no data set.
#pragma once

#include "model/model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tl::profile {

/// {batch, shape...} random numbers; token ids are below 2, which every vocabulary has.
at::Tensor random_records(const model::InputSpec &input, std::int64_t batch);

} // namespace tl::profile
