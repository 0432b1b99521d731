// BMP and WebP: the header here, to know the size before anything is allocated and whether the file
// is as long as it says; the pixels through OpenCV. PNM is little more than its header.
#include "data/formats.h"

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include <cstdlib>
#include <cstring>

namespace tl::data {

namespace {

std::uint32_t little(Bytes file, std::size_t offset, std::size_t length) {
  const Bytes part = file.part(offset, length);
  if (part.size < length) throw DecodeError("ends within its header");
  std::uint32_t value = 0;
  for (std::size_t i = length; i-- > 0;) value = value << 8 | part.data[i];
  return value;
}

/// `format` is for the message.
Tensor decode_with_opencv(Bytes file, const char *format, std::int64_t width, std::int64_t height) {
  const std::string damaged = std::string("damaged ") + format;
  cv::Mat mat;
  try {
    const cv::Mat bytes(1, static_cast<int>(file.size), CV_8U, const_cast<std::uint8_t *>(file.data));
    mat = cv::imdecode(bytes, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception &) {
    throw DecodeError(damaged);
  }
  if (mat.empty()) throw DecodeError(damaged + ", or a kind of it that cannot be read");
  if (mat.type() != CV_8UC3 || mat.cols != width || mat.rows != height)
    throw DecodeError(damaged + ": its sizes contradict each other");
  Tensor pixels = Tensor::empty(DType::u8, {height, width, 3});
  auto *to = pixels.as<std::uint8_t>();
  for (int y = 0; y < mat.rows; ++y) {
    const std::uint8_t *from = mat.ptr(y);
    for (int x = 0; x < mat.cols; ++x, from += 3, to += 3) {
      to[0] = from[2];
      to[1] = from[1];
      to[2] = from[0];
    }
  }
  return pixels;
}

void want_bytes(Bytes file, std::int64_t needed, const char *format) {
  if (needed > static_cast<std::int64_t>(file.size))
    throw DecodeError(std::string("damaged ") + format + ": " + std::to_string(file.size) + " bytes where " +
                      std::to_string(needed) + " are needed");
}

/// One number of a PNM header, after white space and comments.
std::int64_t pnm_number(Bytes file, std::size_t &at) {
  const auto next = [&] { return at < file.size ? file.data[at] : 0; };
  while (next() == '#' || next() == ' ' || (next() >= '\t' && next() <= '\r')) {
    if (next() == '#')
      while (next() && next() != '\n') ++at;
    else
      ++at;
  }
  std::int64_t value = -1;
  for (; next() >= '0' && next() <= '9' && value < 100'000'000; ++at)
    value = std::max<std::int64_t>(value, 0) * 10 + (next() - '0');
  if (value < 0) throw DecodeError("damaged PNM: no number where its header needs one");
  return value;
}

} // namespace

Picture decode_bmp(Bytes file, const Preprocess &rules) {
  const std::uint32_t header = little(file, 14, 4);
  const bool old = header == 12; // OS/2 1.x: 16-bit sizes
  if (!old && (header < 40 || header > 124)) throw DecodeError("damaged BMP: an impossible header");
  const std::int64_t width = old ? little(file, 18, 2) : static_cast<std::int32_t>(little(file, 18, 4));
  const std::int64_t signed_height =
      old ? little(file, 20, 2) : static_cast<std::int32_t>(little(file, 22, 4));
  const std::int64_t height = std::abs(signed_height); // negative: stored from the top
  const std::int64_t bits = little(file, old ? 24 : 28, 2);
  const std::uint32_t compression = old ? 0 : little(file, 30, 4);
  check_size(width, height, rules);
  if ((compression != 0 && compression != 3) || bits > 32)
    throw DecodeError("compressed BMP is not supported; convert it to PNG");
  want_bytes(file, little(file, 10, 4) + (width * bits + 31) / 32 * 4 * height, "BMP");
  return {decode_with_opencv(file, "BMP", width, height), ""};
}

Picture decode_webp(Bytes file, const Preprocess &rules) {
  want_bytes(file, std::int64_t{little(file, 4, 4)} + 8, "WebP");
  std::int64_t width = 0, height = 0;
  const std::uint32_t kind = little(file, 12, 4);
  const auto tag = [](const char *name) {
    return little({reinterpret_cast<const std::uint8_t *>(name), 4}, 0, 4);
  };
  if (kind == tag("VP8X")) {
    if (little(file, 20, 1) & 2) throw DecodeError("animated WebP is not supported; extract a frame");
    width = little(file, 24, 3) + 1;
    height = little(file, 27, 3) + 1;
  } else if (kind == tag("VP8L")) {
    width = (little(file, 21, 4) & 0x3FFF) + 1;
    height = (little(file, 21, 4) >> 14 & 0x3FFF) + 1;
  } else if (kind == tag("VP8 ")) {
    width = little(file, 26, 2) & 0x3FFF;
    height = little(file, 28, 2) & 0x3FFF;
  } else {
    throw DecodeError("damaged WebP: its first chunk is none that can start one");
  }
  check_size(width, height, rules);
  Picture picture{decode_with_opencv(file, "WebP", width, height), ""};
  if (rules.exif == ExifRule::ignore) return picture;
  std::size_t at = 12;
  while (at + 8 <= file.size && little(file, at, 4) != tag("EXIF"))
    at += 8 + (std::size_t{little(file, at + 4, 4)} + 1) / 2 * 2;
  if (at + 8 <= file.size)
    picture.pixels =
        turn_upright(picture.pixels, exif_orientation(file.part(at + 8, little(file, at + 4, 4))));
  return picture;
}

Picture decode_pnm(Bytes file, const Preprocess &rules) {
  const int kind = file.data[1] - '0';
  if (kind != 5 && kind != 6) throw DecodeError("PNM as text or bits is not supported; use P5 or P6");
  std::size_t at = 2;
  const std::int64_t width = pnm_number(file, at), height = pnm_number(file, at), most = pnm_number(file, at);
  check_size(width, height, rules);
  if (most != 255 && most != 65535) throw DecodeError("PNM is read with a maximum of 255 or 65535 only");
  const std::int64_t sample = most == 255 ? 1 : 2, channels = kind == 6 ? 3 : 1;
  ++at; // one white space ends the header
  want_bytes(file, static_cast<std::int64_t>(at) + width * height * sample * channels, "PNM");
  Picture picture;
  picture.pixels = Tensor::empty(DType::u8, {height, width, 3});
  auto *to = picture.pixels.as<std::uint8_t>();
  const std::uint8_t *from = file.data + at;
  for (std::int64_t i = 0; i < width * height; ++i, from += channels * sample)
    for (std::int64_t c = 0; c < 3; ++c) {
      const std::uint8_t *value = from + (channels == 3 ? c * sample : 0);
      *to++ = sample == 1 ? *value : static_cast<std::uint8_t>(((value[0] << 8 | value[1]) + 128) / 257);
    }
  return picture;
}

} // namespace tl::data
