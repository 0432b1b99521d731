// f32 values in fewer bits, and back.
#pragma once

#include "cli/error.h"
#include "runtime/tensor.h"

#include <cstdint>

namespace tl::codec {

/// f32 -> bf16 of the same shape, rounded to nearest, ties to even (IEEE 754): the relative error of a
/// normal number is at most 2^-8. Infinities and not-a-numbers stay what they are; beyond the largest
/// bf16, 3.39e38, a number becomes infinite.
Tensor to_bf16(const Tensor &values);
/// Exact.
Tensor from_bf16(const Tensor &values);

/// A value that cannot be scaled because it holds infinities or not-a-numbers.
class NotFinite : public Error {
public:
  explicit NotFinite(std::int64_t at)
      : Error("holds infinities or not-a-numbers, which int8 cannot express"), row(at) {}
  std::int64_t row;
};

/// Shape of the scales of one record: its own, with 1 for each dimension that a scale covers, so that
/// values * scales broadcasts. The channels of {C, H, W} and beyond are the first dimension, those of a
/// sequence {T, C} the last. A vector, and a record with fewer than 16 elements a channel, has one
/// scale: more would outweigh what they save.
Shape scale_shape(const Shape &record);

struct Scaled {
  Tensor values; // i8, -127 to 127
  Tensor scales; // f32 {rows, scale_shape...}
};

/// Symmetric: a scale is the largest magnitude it covers / 127, or the least normal f32 if that is
/// more; 0 where all is 0. The error of an element is at most half of its scale, to within rounding.
/// A record's result depends on no other record. Throws NotFinite with the first such row.
Scaled to_int8(const Tensor &values);
/// values * scales, f32. Throws FormatError if the scales have another shape than scale_shape says.
Tensor from_int8(const Tensor &values, const Tensor &scales);

} // namespace tl::codec
