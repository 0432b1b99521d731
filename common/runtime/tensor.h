// A dense tensor in host memory that knows nothing of LibTorch: what readers, shards and plans
// pass to each other. Row-major, contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tl {

enum class DType { f32, f64, f16, bf16, u8, i8, i16, i32, i64, boolean };

std::size_t size_of(DType dtype);
/// "f32", "bf16", ...: the names used in JSON documents.
std::string_view name_of(DType dtype);
/// Throws FormatError on an unknown name.
DType dtype_from_name(std::string_view name);

using Shape = std::vector<std::int64_t>;

/// Product of the dimensions. Throws FormatError when negative or beyond 2^62.
std::int64_t element_count(const Shape &shape);
/// "2x3x224x224"; "scalar" for no dimension.
std::string to_string(const Shape &shape);

/// Shared, so that a batch can pass through queues without a copy. The owner may be any storage
/// (a heap block, a mapped file): `data` keeps it alive.
struct Tensor {
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<std::byte> data;

  /// 64-byte aligned, not initialised.
  static Tensor empty(DType dtype, Shape shape);

  std::int64_t elements() const { return element_count(shape); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  template <class T> T *as() { return reinterpret_cast<T *>(data.get()); }
  template <class T> const T *as() const { return reinterpret_cast<const T *>(data.get()); }
};

} // namespace tl
