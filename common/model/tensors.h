// Between tl::Tensor (host memory, no LibTorch) and at::Tensor.
#pragma once

#include "runtime/hash.h"
#include "runtime/tensor.h"

#include <ATen/core/Tensor.h>

namespace tl::model {

/// Shares the memory: `tensor.data` lives as long as the result.
at::Tensor to_torch(const Tensor &tensor);
/// Shares the memory of a contiguous CPU tensor; anything else is copied first.
Tensor from_torch(const at::Tensor &tensor);

at::ScalarType scalar_type(DType dtype);
/// Throws FormatError for types that shards cannot hold (complex, quantised).
DType dtype_of(at::ScalarType type);

/// Hash of data type, shape and bytes: the identity of a parameter.
Digest hash_tensor(const at::Tensor &tensor);

} // namespace tl::model
