#include "codec/numbers.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

namespace tl::codec {

namespace {

constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
constexpr std::int32_t kInfinity = 0x7F800000;
constexpr std::int64_t kFewestPerScale = 16;

std::int32_t bits_of(float value) {
  std::int32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// A record as {outer, channels, inner}: its elements of channel c are [o][c][i].
struct Layout {
  std::int64_t outer = 1, channels = 1, inner = 1;
};

Layout layout_of(const Shape &record) {
  const std::int64_t elements = element_count(record);
  Layout layout{1, 1, elements};
  if (record.size() < 2) return layout;
  const bool sequence = record.size() == 2;
  const std::int64_t channels = sequence ? record.back() : record.front();
  if (channels < 1 || elements / channels < kFewestPerScale) return layout;
  if (sequence) return {record.front(), channels, 1};
  return {1, channels, elements / channels};
}

Shape record_of(const Tensor &rows) { return {rows.shape.begin() + 1, rows.shape.end()}; }

Shape with_rows(std::int64_t rows, const Shape &record) {
  Shape shape{rows};
  shape.insert(shape.end(), record.begin(), record.end());
  return shape;
}

/// Calls run(begin, length, first channel, step between channels) for each run of contiguous elements
/// whose channel either stays (step 0) or goes up by one an element (step 1).
template <class Run> void for_runs(const Layout &layout, const Run &run) {
  if (layout.inner == 1) {
    for (std::int64_t o = 0; o < layout.outer; ++o)
      run(o * layout.channels, layout.channels, std::int64_t{0}, true);
    return;
  }
  for (std::int64_t c = 0; c < layout.channels; ++c) run(c * layout.inner, layout.inner, c, false);
}

/// The bits of the largest magnitude of each channel: those of non-negative floats sort as they do, and
/// infinities and not-a-numbers are above all others.
void find_largest(const float *record, const Layout &layout, std::vector<std::int32_t> &largest) {
  std::fill(largest.begin(), largest.end(), 0);
  for_runs(layout, [&](std::int64_t begin, std::int64_t length, std::int64_t channel, bool per_element) {
    const float *values = record + begin;
    if (per_element) {
      for (std::int64_t i = 0; i < length; ++i)
        largest[static_cast<std::size_t>(i)] =
            std::max(largest[static_cast<std::size_t>(i)], bits_of(values[i]) & kMagnitude);
      return;
    }
    std::int32_t most = 0;
    for (std::int64_t i = 0; i < length; ++i) most = std::max(most, bits_of(values[i]) & kMagnitude);
    largest[static_cast<std::size_t>(channel)] = most;
  });
}

float scale_of(std::int32_t largest) {
  if (largest == 0) return 0;
  float magnitude = 0;
  std::memcpy(&magnitude, &largest, sizeof magnitude);
  float scale = std::max(magnitude / 127, FLT_MIN);
  if (!std::isfinite(scale * 127)) scale = std::nextafter(scale, 0.0F);
  return scale;
}

/// |quotient| is at most 127 and some rounding. Adding 1.5 * 2^23 leaves no bit for a fraction, so it
/// rounds to nearest, ties to even; unlike lrint(), this vectorises everywhere.
std::int8_t nearest(float quotient) {
  constexpr float kShift = 12582912;
  return static_cast<std::int8_t>(static_cast<std::int32_t>((quotient + kShift) - kShift));
}

void quantise(const float *record, const Layout &layout, const float *scales, std::int8_t *to) {
  const auto divisor = [](float scale) { return scale > 0 ? scale : 1.0F; };
  for_runs(layout, [&](std::int64_t begin, std::int64_t length, std::int64_t channel, bool per_element) {
    const float *values = record + begin;
    std::int8_t *result = to + begin;
    if (per_element) {
      for (std::int64_t i = 0; i < length; ++i) result[i] = nearest(values[i] / divisor(scales[i]));
      return;
    }
    const float scale = divisor(scales[channel]);
    for (std::int64_t i = 0; i < length; ++i) result[i] = nearest(values[i] / scale);
  });
}

void expand(const std::int8_t *record, const Layout &layout, const float *scales, float *to) {
  for_runs(layout, [&](std::int64_t begin, std::int64_t length, std::int64_t channel, bool per_element) {
    const std::int8_t *values = record + begin;
    float *result = to + begin;
    if (per_element) {
      for (std::int64_t i = 0; i < length; ++i) result[i] = static_cast<float>(values[i]) * scales[i];
      return;
    }
    const float scale = scales[channel];
    for (std::int64_t i = 0; i < length; ++i) result[i] = static_cast<float>(values[i]) * scale;
  });
}

} // namespace

Tensor to_bf16(const Tensor &values) {
  Tensor result = Tensor::empty(DType::bf16, values.shape);
  const auto *from = values.as<std::uint32_t>();
  auto *to = result.as<std::uint16_t>();
  const std::int64_t count = values.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = from[i];
    const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const bool nan = (bits & static_cast<std::uint32_t>(kMagnitude)) > static_cast<std::uint32_t>(kInfinity);
    // Rounding could carry a not-a-number into infinity; the bit that is set makes it quiet instead.
    to[i] = static_cast<std::uint16_t>(nan ? bits >> 16 | 0x40 : rounded);
  }
  return result;
}

Tensor from_bf16(const Tensor &values) {
  Tensor result = Tensor::empty(DType::f32, values.shape);
  const auto *from = values.as<std::uint16_t>();
  auto *to = result.as<std::uint32_t>();
  const std::int64_t count = values.elements();
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint32_t>(from[i]) << 16;
  return result;
}

Shape scale_shape(const Shape &record) {
  Shape shape(record.size(), 1);
  const Layout layout = layout_of(record);
  if (layout.channels > 1) (layout.inner == 1 ? shape.back() : shape.front()) = layout.channels;
  return shape;
}

Scaled to_int8(const Tensor &values) {
  const Shape record = record_of(values);
  const Layout layout = layout_of(record);
  const std::int64_t rows = values.shape.at(0), elements = element_count(record);
  Scaled result{Tensor::empty(DType::i8, values.shape),
                Tensor::empty(DType::f32, with_rows(rows, scale_shape(record)))};
  std::vector<std::int32_t> largest(static_cast<std::size_t>(layout.channels));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float *from = values.as<float>() + row * elements;
    float *scales = result.scales.as<float>() + row * layout.channels;
    find_largest(from, layout, largest);
    if (*std::max_element(largest.begin(), largest.end()) >= kInfinity) throw NotFinite(row);
    std::transform(largest.begin(), largest.end(), scales, scale_of);
    quantise(from, layout, scales, result.values.as<std::int8_t>() + row * elements);
  }
  return result;
}

Tensor from_int8(const Tensor &values, const Tensor &scales) {
  const Shape record = record_of(values);
  const Layout layout = layout_of(record);
  const std::int64_t rows = values.shape.at(0), elements = element_count(record);
  if (scales.dtype != DType::f32 || scales.shape != with_rows(rows, scale_shape(record)))
    throw FormatError("scales of " + to_string(scales.shape) + " do not fit values of " +
                      to_string(values.shape));
  Tensor result = Tensor::empty(DType::f32, values.shape);
  for (std::int64_t row = 0; row < rows; ++row)
    expand(values.as<std::int8_t>() + row * elements, layout, scales.as<float>() + row * layout.channels,
           result.as<float>() + row * elements);
  return result;
}

} // namespace tl::codec
