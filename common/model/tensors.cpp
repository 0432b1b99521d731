#include "model/tensors.h"

#include "cli/error.h"

#include <torch/torch.h>

namespace tl::model {

namespace {
struct Pair {
  DType ours;
  at::ScalarType theirs;
};
constexpr Pair kPairs[] = {
    {DType::f32, at::kFloat},     {DType::f64, at::kDouble}, {DType::f16, at::kHalf},
    {DType::bf16, at::kBFloat16}, {DType::u8, at::kByte},    {DType::i8, at::kChar},
    {DType::i16, at::kShort},     {DType::i32, at::kInt},    {DType::i64, at::kLong},
    {DType::boolean, at::kBool},
};
} // namespace

at::ScalarType scalar_type(DType dtype) { return kPairs[static_cast<std::size_t>(dtype)].theirs; }

DType dtype_of(at::ScalarType type) {
  for (const Pair &pair : kPairs)
    if (pair.theirs == type) return pair.ours;
  throw FormatError(std::string("tensors of type ") + c10::toString(type) + " are not supported");
}

at::Tensor to_torch(const Tensor &tensor) {
  // The deleter holds the shared pointer, so the memory lives as long as the tensor.
  auto owner = tensor.data;
  return torch::from_blob(
      tensor.data.get(), tensor.shape, [owner](void *) mutable { owner.reset(); }, scalar_type(tensor.dtype));
}

Tensor from_torch(const at::Tensor &tensor) {
  const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
  Tensor result;
  result.dtype = dtype_of(dense.scalar_type());
  result.shape = dense.sizes().vec();
  result.data =
      std::shared_ptr<std::byte>(static_cast<std::byte *>(dense.data_ptr()), [dense](std::byte *) {});
  return result;
}

Digest hash_tensor(const at::Tensor &tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  Hasher hasher;
  hasher.add(name_of(dtype_of(dense.scalar_type())));
  for (const std::int64_t size : dense.sizes()) hasher.add(size);
  hasher.raw(dense.data_ptr(), dense.nbytes());
  return hasher.digest();
}

} // namespace tl::model
