#include "runtime/tensor.h"

#include "cli/error.h"

#include <cstdlib>
#include <new>

namespace tl {

namespace {
struct Entry {
  DType dtype;
  std::string_view name;
  std::size_t size;
};
constexpr Entry kTypes[] = {
    {DType::f32, "f32", 4}, {DType::f64, "f64", 8},      {DType::f16, "f16", 2}, {DType::bf16, "bf16", 2},
    {DType::u8, "u8", 1},   {DType::i8, "i8", 1},        {DType::i16, "i16", 2}, {DType::i32, "i32", 4},
    {DType::i64, "i64", 8}, {DType::boolean, "bool", 1},
};
} // namespace

std::size_t size_of(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)].name; }

DType dtype_from_name(std::string_view name) {
  for (const Entry &entry : kTypes)
    if (entry.name == name) return entry.dtype;
  throw FormatError("unknown data type '" + std::string(name) + "'");
}

std::int64_t element_count(const Shape &shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > (1LL << 62))
      throw FormatError("impossible shape " + to_string(shape));
  return count;
}

std::string to_string(const Shape &shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

Tensor Tensor::empty(DType dtype, Shape shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  const std::size_t bytes = (tensor.bytes() + 63) / 64 * 64;
  auto *block = static_cast<std::byte *>(std::aligned_alloc(64, bytes ? bytes : 64));
  if (!block) throw std::bad_alloc();
  tensor.data = std::shared_ptr<std::byte>(block, [](std::byte *p) { std::free(p); });
  return tensor;
}

} // namespace tl
