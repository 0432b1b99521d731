// Pixels -> pixels: resize, centre crop, channels; and pixels -> f32.
//
// Resizing is separable convolution as Pillow defines it: for output x the filter is centred at
// (x + 0.5) * scale, stretched by max(scale, 1) when antialiasing, cut to the picture, and its
// weights normalised to 1; rows are resampled first and rounded to 8 bits, then columns. OpenCV has
// no equal: INTER_LINEAR does not widen the filter, and INTER_AREA is another filter.
#include "cli/error.h"
#include "data/prepare.h"

#include <opencv2/core/hal/intrin.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tl::data {

namespace {

struct Window {
  std::int64_t begin = 0, end = 0; // of the resized axis: what the crop keeps
};

/// Weights of one axis as 16-bit fixed point: products with 8-bit pixels then add up in 32 bits,
/// which every SIMD unit has. `shift` is as large as the weights allow.
struct Taps {
  std::vector<std::int64_t> first; // per output: first source index
  std::vector<int> count;
  std::vector<std::int16_t> weights; // `stride` per output
  int stride = 0;
  int shift = 0;
};

double filter_at(Interpolation kind, double x) {
  x = std::abs(x);
  if (kind == Interpolation::bilinear) return x < 1 ? 1 - x : 0;
  // Keys' cubic convolution with a = -0.5, as in Pillow.
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// Rounds to fixed point so that the weights still add up to exactly one.
void quantise(const std::vector<double> &exact, int shift, std::int16_t *out) {
  const double one = static_cast<double>(1 << shift);
  std::int64_t left = 1 << shift;
  std::size_t largest = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    out[k] = static_cast<std::int16_t>(std::lround(exact[k] * one));
    left -= out[k];
    if (exact[k] > exact[largest]) largest = k;
  }
  out[largest] = static_cast<std::int16_t>(out[largest] + left);
}

Taps make_taps(std::int64_t in, std::int64_t out, const Window &window, const Preprocess &p) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = p.antialias ? std::max(scale, 1.0) : 1.0;
  const double support = (p.interpolation == Interpolation::bicubic ? 2.0 : 1.0) * stretch;
  std::vector<std::vector<double>> exact;
  Taps taps;
  double greatest = 0;
  for (std::int64_t x = window.begin; x < window.end; ++x) {
    const double centre = (static_cast<double>(x) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), in);
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t k = first; k < last; ++k) {
      weights.push_back(filter_at(p.interpolation, (static_cast<double>(k) - centre + 0.5) / stretch));
      sum += weights.back();
    }
    for (double &weight : weights) greatest = std::max(greatest, std::abs(weight /= sum));
    taps.first.push_back(first);
    taps.count.push_back(static_cast<int>(weights.size()));
    taps.stride = std::max(taps.stride, taps.count.back());
    exact.push_back(std::move(weights));
  }
  // Room for 32767 less the correction of quantise(); 22 bits keep a sum of products in 32.
  while (taps.shift < 22 && greatest * (2 << taps.shift) + taps.stride < 32767) ++taps.shift;
  taps.stride += taps.stride % 2; // weights are read in pairs
  taps.weights.assign(exact.size() * static_cast<std::size_t>(taps.stride), 0);
  for (std::size_t i = 0; i < exact.size(); ++i)
    quantise(exact[i], taps.shift, &taps.weights[i * static_cast<std::size_t>(taps.stride)]);
  return taps;
}

std::uint8_t clamp_byte(std::int32_t value) {
  return static_cast<std::uint8_t>(std::min(std::max(value, 0), 255));
}

/// One row of RGB pixels, two taps and all channels at a time. Reads up to kOverread bytes past the
/// last pixel, which have no weight.
constexpr std::size_t kOverread = 4;

void resample_row(const std::uint8_t *row, const Taps &taps, std::uint8_t *out) {
  const auto load = [](const std::uint8_t *from) {
    std::int32_t four = 0;
    std::memcpy(&four, from, 4);
    return cv::v_reinterpret_as_u8(cv::v_int32x4(four, 0, 0, 0));
  };
  const cv::v_int32x4 half = cv::v_setall_s32(1 << (taps.shift - 1));
  const std::int16_t *weights = taps.weights.data();
  for (std::size_t x = 0; x < taps.first.size(); ++x, weights += taps.stride, out += 3) {
    const std::uint8_t *pixel = row + taps.first[x] * 3;
    cv::v_int32x4 sum = half;
    for (int k = 0; k < taps.count[x]; k += 2, pixel += 6) {
      cv::v_uint8x16 pairs, unused; // red of both pixels, green of both, ...
      cv::v_zip(load(pixel), load(pixel + 3), pairs, unused);
      std::int32_t both = 0;
      std::memcpy(&both, weights + k, 4);
      sum = cv::v_dotprod(cv::v_reinterpret_as_s16(cv::v_expand_low(pairs)),
                          cv::v_reinterpret_as_s16(cv::v_setall_s32(both)), sum);
    }
    alignas(16) std::int32_t sums[4];
    cv::v_store_aligned(sums, sum);
    for (int c = 0; c < 3; ++c) out[c] = clamp_byte(sums[c] >> taps.shift);
  }
}

/// One output row from `count` source rows of `width` bytes.
void resample_column(const std::uint8_t *rows, std::size_t width, const std::int16_t *weights, int count,
                     int shift, std::vector<std::int32_t> &sums, std::uint8_t *out) {
  std::int32_t *sum = sums.data();
  std::fill(sums.begin(), sums.end(), 1 << (shift - 1));
  for (int k = 0; k < count; ++k) {
    const std::uint8_t *row = rows + static_cast<std::size_t>(k) * width;
    const std::int16_t weight = weights[k];
    for (std::size_t i = 0; i < width; ++i) sum[i] += weight * static_cast<std::int16_t>(row[i]);
  }
  for (std::size_t i = 0; i < width; ++i) out[i] = clamp_byte(sum[i] >> shift);
}

struct View {
  const std::uint8_t *data = nullptr; // RGB
  std::int64_t height = 0, width = 0;
};

Tensor resample(const View &in, std::int64_t height, std::int64_t width, const Window &rows,
                const Window &columns, const Preprocess &p) {
  const Taps across = make_taps(in.width, width, columns, p);
  const Taps down = make_taps(in.height, height, rows, p);
  const std::int64_t out_height = rows.end - rows.begin, out_width = columns.end - columns.begin;
  const auto row_bytes = static_cast<std::size_t>(out_width) * 3;
  // Only the source rows that the crop needs.
  const std::int64_t first = down.first.front();
  const std::int64_t last = down.first.back() + down.count.back();
  std::vector<std::uint8_t> middle(static_cast<std::size_t>(last - first) * row_bytes);
  // The picture's last row has nothing behind it that may be read.
  const std::uint8_t *last_row = in.data + (in.height - 1) * in.width * 3;
  std::vector<std::uint8_t> padded(last_row, last_row + in.width * 3);
  padded.resize(padded.size() + kOverread);
  for (std::int64_t y = first; y < last; ++y)
    resample_row(y == in.height - 1 ? padded.data() : in.data + y * in.width * 3, across,
                 &middle[static_cast<std::size_t>(y - first) * row_bytes]);
  Tensor out = Tensor::empty(DType::u8, {out_height, out_width, 3});
  std::vector<std::int32_t> sums(row_bytes);
  for (std::size_t y = 0; y < down.first.size(); ++y)
    resample_column(&middle[static_cast<std::size_t>(down.first[y] - first) * row_bytes], row_bytes,
                    &down.weights[y * static_cast<std::size_t>(down.stride)], down.count[y], down.shift, sums,
                    out.as<std::uint8_t>() + y * row_bytes);
  return out;
}

/// The source index of each output in the window. Summed up step by step as Pillow does, because
/// the rounding decides which neighbour a tie takes.
std::vector<std::int64_t> nearest_sources(std::int64_t in, std::int64_t out, const Window &window) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  std::vector<std::int64_t> sources;
  double position = scale * 0.5;
  for (std::int64_t i = 0; i < window.end; ++i, position += scale)
    if (i >= window.begin) sources.push_back(std::min(static_cast<std::int64_t>(position), in - 1));
  return sources;
}

Tensor pick_nearest(const View &in, std::int64_t height, std::int64_t width, const Window &rows,
                    const Window &columns) {
  Tensor out = Tensor::empty(DType::u8, {rows.end - rows.begin, columns.end - columns.begin, 3});
  const std::vector<std::int64_t> across = nearest_sources(in.width, width, columns);
  auto *pixel = out.as<std::uint8_t>();
  for (const std::int64_t y : nearest_sources(in.height, height, rows)) {
    const std::uint8_t *row = in.data + y * in.width * 3;
    for (const std::int64_t x : across) {
      std::memcpy(pixel, row + x * 3, 3);
      pixel += 3;
    }
  }
  return out;
}

struct Size {
  std::int64_t height = 0, width = 0;
};

Size resized(const View &in, const std::vector<std::int64_t> &resize) {
  if (resize.empty()) return {in.height, in.width};
  if (resize.size() == 2) return {resize[0], resize[1]};
  if (in.width <= in.height) return {resize[0] * in.height / in.width, resize[0]};
  return {resize[0], resize[0] * in.width / in.height};
}

/// Where a crop of `want` starts in `have` >= want: half of the rest, halves to even, as Python's
/// round() does it for torchvision.
std::int64_t crop_start(std::int64_t have, std::int64_t want) {
  const std::int64_t half = (have - want) / 2;
  return (have - want) % 2 ? half + half % 2 : half;
}

/// Interleaved `in` into the middle of planes of height x width, black around it.
Tensor to_planes(const View &in, std::int64_t channels, std::int64_t height, std::int64_t width) {
  Tensor out = Tensor::empty(DType::u8, {channels, height, width});
  auto *planes = out.as<std::uint8_t>();
  const std::int64_t top = (height - in.height) / 2, left = (width - in.width) / 2;
  if (in.height < height || in.width < width) std::memset(planes, 0, out.bytes());
  const std::int64_t area = height * width;
  for (std::int64_t y = 0; y < in.height; ++y) {
    const std::uint8_t *p = in.data + y * in.width * 3;
    std::uint8_t *to = planes + (y + top) * width + left;
    if (channels == 3) {
      for (std::int64_t x = 0; x < in.width; ++x, p += 3) {
        to[x] = p[0];
        to[x + area] = p[1];
        to[x + 2 * area] = p[2];
      }
    } else {
      // ITU-R 601 luma in 16-bit fixed point; the weights add up to 65536, so grey stays as it is.
      for (std::int64_t x = 0; x < in.width; ++x, p += 3)
        to[x] = static_cast<std::uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 32768) >> 16);
    }
  }
  return out;
}

} // namespace

Tensor transform_pixels(const Preprocess &p, const Tensor &pixels) {
  const View in{pixels.as<std::uint8_t>(), pixels.shape.at(0), pixels.shape.at(1)};
  const Size size = resized(in, p.resize);
  // A sliver of a picture can ask for an absurd longer side, or for none at all.
  if (size.height < 1 || size.width < 1 || size.height > p.max_pixels / size.width)
    throw DecodeError("resized it would be " + std::to_string(size.width) + "x" +
                      std::to_string(size.height) + ", which is empty or over --max-pixels");
  const std::int64_t height = p.crop.empty() ? size.height : p.crop[0];
  const std::int64_t width = p.crop.empty() ? size.width : p.crop[1];
  Window rows{0, size.height}, columns{0, size.width};
  if (height < size.height)
    rows = {crop_start(size.height, height), crop_start(size.height, height) + height};
  if (width < size.width) columns = {crop_start(size.width, width), crop_start(size.width, width) + width};
  const bool as_it_is = size.height == in.height && size.width == in.width;
  const Tensor kept = as_it_is || p.interpolation == Interpolation::nearest
                          ? pick_nearest(in, size.height, size.width, rows, columns)
                          : resample(in, size.height, size.width, rows, columns, p);
  return to_planes({kept.as<std::uint8_t>(), kept.shape[0], kept.shape[1]}, p.channels, height, width);
}

Tensor normalise(const Preprocess &p, const Tensor &pixels) {
  const std::size_t rank = pixels.shape.size();
  if (pixels.dtype != DType::u8 || rank < 3 || pixels.shape[rank - 3] != p.channels)
    throw FormatError("pixels to normalise: " + std::string(name_of(pixels.dtype)) + " " +
                      to_string(pixels.shape) + "; want u8 with " + std::to_string(p.channels) + " channels");
  Tensor out = Tensor::empty(DType::f32, pixels.shape);
  const std::int64_t area = pixels.shape[rank - 2] * pixels.shape[rank - 1];
  const std::int64_t planes = area ? pixels.elements() / area : 0;
  // Each value is one of 256 per channel; the table is computed in the same steps as torchvision:
  // division by 255, subtraction and division, each rounded to f32.
  std::vector<float> table(static_cast<std::size_t>(p.channels) * 256);
  for (std::size_t i = 0; i < table.size(); ++i) {
    volatile float value = static_cast<float>(i % 256); // volatile: no fused multiply-add anywhere
    if (p.scale) value = value / 255.0F;
    if (!p.mean.empty()) {
      value = value - static_cast<float>(p.mean[i / 256]);
      value = value / static_cast<float>(p.std[i / 256]);
    }
    table[i] = value;
  }
  const auto *from = pixels.as<std::uint8_t>();
  auto *to = out.as<float>();
  for (std::int64_t plane = 0; plane < planes; ++plane, from += area, to += area) {
    const float *values = &table[static_cast<std::size_t>(plane % p.channels) * 256];
    for (std::int64_t i = 0; i < area; ++i) to[i] = values[from[i]];
  }
  return out;
}

} // namespace tl::data
