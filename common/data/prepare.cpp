#include "data/prepare.h"

#include "runtime/clock.h"

#include <cstring>

namespace tl::data {

namespace {

/// A row of 8-bit pixels -> {H, W, 3}. HxW is grey; of three dimensions the one of size 1 or 3 at
/// the front (planes) or the back (interleaved) is the channels.
Tensor row_to_rgb(const Tensor &row) {
  const Shape &shape = row.shape;
  const auto colours = [](std::int64_t n) { return n == 1 || n == 3; };
  const bool grey = shape.size() == 2;
  const bool planes = shape.size() == 3 && colours(shape[0]);
  const bool interleaved = shape.size() == 3 && !planes && colours(shape[2]);
  if (row.dtype != DType::u8 || (!grey && !planes && !interleaved))
    throw DecodeError("a row of " + std::string(name_of(row.dtype)) + " " + to_string(shape) +
                      " is no picture; use --preprocess tensor");
  const std::int64_t height = shape[planes ? 1 : 0], width = shape[planes ? 2 : 1];
  const std::int64_t channels = grey ? 1 : planes ? shape[0] : shape[2];
  if (height < 1 || width < 1) throw DecodeError("an empty picture, " + to_string(shape));
  const std::int64_t area = height * width;
  const std::int64_t pixel_step = planes ? 1 : channels, channel_step = planes ? area : 1;
  Tensor out = Tensor::empty(DType::u8, {height, width, 3});
  const auto *from = row.as<std::uint8_t>();
  auto *to = out.as<std::uint8_t>();
  for (std::int64_t i = 0; i < area; ++i)
    for (std::int64_t c = 0; c < 3; ++c)
      *to++ = from[i * pixel_step + (channels == 3 ? c * channel_step : 0)];
  return out;
}

template <class T> void to_f32(const Tensor &row, float *out) {
  const T *from = row.as<T>();
  for (std::int64_t i = 0; i < row.elements(); ++i) out[i] = static_cast<float>(from[i]);
}

Tensor row_to_f32(const Preprocess &p, const Tensor &row) {
  Tensor out = Tensor::empty(DType::f32, row.shape);
  auto *to = out.as<float>();
  switch (row.dtype) {
  case DType::f32:
    std::memcpy(to, row.data.get(), row.bytes());
    break;
  case DType::f64:
    to_f32<double>(row, to);
    break;
  case DType::u8:
    to_f32<std::uint8_t>(row, to);
    break;
  case DType::i8:
    to_f32<std::int8_t>(row, to);
    break;
  case DType::i16:
    to_f32<std::int16_t>(row, to);
    break;
  case DType::i32:
    to_f32<std::int32_t>(row, to);
    break;
  case DType::i64:
    to_f32<std::int64_t>(row, to);
    break;
  default:
    throw DecodeError("rows of " + std::string(name_of(row.dtype)) + " are not supported; store them as f32");
  }
  const std::int64_t count = out.elements();
  if (p.scale && row.dtype == DType::u8)
    for (std::int64_t i = 0; i < count; ++i) to[i] /= 255.0F;
  if (p.mean.empty() || count == 0) return out;
  const auto groups = static_cast<std::int64_t>(p.mean.size());
  if (groups != 1 && (row.shape.empty() || row.shape[0] != groups))
    throw DecodeError("mean and std: " + std::to_string(groups) + " values for a row of " +
                      to_string(row.shape));
  const std::int64_t each = count / groups;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto group = static_cast<std::size_t>(i / each);
    const float centred = to[i] - static_cast<float>(p.mean[group]);
    to[i] = centred / static_cast<float>(p.std[group]);
  }
  return out;
}

Tensor row_to_i64(const Tensor &row) {
  if (row.dtype == DType::i64) return row;
  if (row.dtype != DType::i32)
    throw DecodeError("tokens of " + std::string(name_of(row.dtype)) + "; want i64 or i32");
  Tensor out = Tensor::empty(DType::i64, row.shape);
  for (std::int64_t i = 0; i < row.elements(); ++i) out.as<std::int64_t>()[i] = row.as<std::int32_t>()[i];
  return out;
}

} // namespace

struct Preparer::State {
  Preprocess preprocess;
  std::string warning;
  PrepareTimes times;
};

Preparer::Preparer(Preprocess preprocess) : state_(std::make_unique<State>()) {
  preprocess.check();
  state_->preprocess = std::move(preprocess);
}
Preparer::~Preparer() = default;
Preparer::Preparer(Preparer &&) noexcept = default;
Preparer &Preparer::operator=(Preparer &&) noexcept = default;

const std::string &Preparer::warning() const { return state_->warning; }
const PrepareTimes &Preparer::times() const { return state_->times; }

Tensor Preparer::pixels(const Encoded &record) {
  State &state = *state_;
  if (state.preprocess.kind != InputKind::image)
    throw UsageError("only pictures have pixels; the preprocessing is for other records");
  state.warning.clear();
  const Stopwatch decode;
  Picture picture;
  if (record.is_file)
    picture = decode_picture(record.content.data.get(), record.content.bytes(), state.preprocess);
  else
    picture.pixels = row_to_rgb(record.content);
  state.times.decode += decode.seconds();
  const Stopwatch resize;
  Tensor pixels = transform_pixels(state.preprocess, picture.pixels);
  state.times.resize += resize.seconds();
  state.warning = std::move(picture.warning);
  return pixels;
}

Tensor Preparer::input(const Encoded &record) {
  State &state = *state_;
  if (state.preprocess.kind == InputKind::image) {
    const Tensor stored = pixels(record);
    const Stopwatch resize;
    Tensor out = normalise(state.preprocess, stored);
    state.times.resize += resize.seconds();
    return out;
  }
  state.warning.clear();
  if (record.is_file) throw UsageError("picture files need a preprocessing of kind image");
  const Stopwatch decode;
  Tensor out = state.preprocess.kind == InputKind::tokens ? row_to_i64(record.content)
                                                          : row_to_f32(state.preprocess, record.content);
  state.times.decode += decode.seconds();
  return out;
}

} // namespace tl::data
