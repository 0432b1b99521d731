#include "data/decode.h"

#include "data/formats.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tl::data {

namespace {

// Of the first directory: the tag, and the type of its value.
constexpr std::size_t kOrientationTag = 274;
constexpr std::size_t kShort = 3;

bool starts_with(Bytes file, std::string_view magic, std::size_t offset = 0) {
  const Bytes part = file.part(offset, magic.size());
  return part.size == magic.size() && std::memcmp(part.data, magic.data(), magic.size()) == 0;
}

bool is_tiff(Bytes file) {
  using namespace std::string_view_literals;
  return starts_with(file, "II*\0"sv) || starts_with(file, "MM\0*"sv);
}

bool looks_like_text(Bytes file) {
  const Bytes head = file.part(0, 512);
  return std::all_of(head.data, head.data + head.size, [](std::uint8_t c) {
    return c >= 0x80 || (c >= 0x20 && c != 0x7F) || (c >= '\t' && c <= '\r');
  });
}

/// Why `file`, which is no picture that we read, is none: what a user would recognise.
std::string describe_unknown(Bytes file) {
  if (file.size == 0) return "0 bytes";
  if (starts_with(file, "GIF8")) return "GIF is not supported; convert it to PNG";
  if (starts_with(file, "PK\x03\x04")) return "a zip archive, not a picture";
  if (starts_with(file, "\x1f\x8b")) return "gzip data, not a picture";
  if (starts_with(file, "%PDF")) return "a PDF document, not a picture";
  if (starts_with(file, "ftyp", 4)) return "HEIC, AVIF or video is not supported; convert it to PNG or JPEG";
  if (starts_with(file, "jP  ", 4) || starts_with(file, "\xff\x4f\xff\x51"))
    return "JPEG 2000 is not supported; convert it to PNG";
  std::size_t begin = starts_with(file, "\xef\xbb\xbf") ? 3 : 0;
  while (begin < file.size && std::strchr(" \t\r\n", file.data[begin]) && file.data[begin]) ++begin;
  if (starts_with(file, "<", begin) && looks_like_text(file)) return "looks like XML or HTML, not a picture";
  if (looks_like_text(file)) return "looks like text, not a picture";
  return "not a picture of a known format (JPEG, PNG, BMP, WebP, TIFF, PNM)";
}

} // namespace

void check_size(std::int64_t width, std::int64_t height, const Preprocess &rules) {
  const std::string size = std::to_string(width) + "x" + std::to_string(height);
  if (width < 1 || height < 1) throw DecodeError("declares an empty picture, " + size);
  if (height > rules.max_pixels / width)
    throw DecodeError(size + " pixels is over --max-pixels " + std::to_string(rules.max_pixels));
}

int exif_orientation(Bytes tiff) {
  if (!is_tiff(tiff)) return 1;
  const bool little = tiff.data[0] == 'I';
  const auto number = [&](std::size_t offset, std::size_t length) -> std::size_t {
    const Bytes part = tiff.part(offset, length);
    std::size_t value = 0;
    for (std::size_t i = 0; i < part.size; ++i)
      value = value << 8 | part.data[little ? part.size - 1 - i : i];
    return value;
  };
  const std::size_t directory = number(4, 4);
  const std::size_t entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * 12;
    if (number(entry, 2) != kOrientationTag) continue;
    const std::size_t value = number(entry + 8, 2);
    const bool sound = number(entry + 2, 2) == kShort && number(entry + 4, 4) == 1;
    return sound && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Tensor turn_upright(const Tensor &pixels, int orientation) {
  if (orientation == 1) return pixels;
  const std::int64_t height = pixels.shape[0], width = pixels.shape[1];
  // 5 to 8 are stored with rows and columns exchanged; then either axis may run backwards.
  const bool swapped = orientation >= 5;
  const bool up = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool leftwards = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const std::int64_t rows = swapped ? width : height, columns = swapped ? height : width;
  Tensor out = Tensor::empty(DType::u8, {rows, columns, 3});
  const auto *from = pixels.as<std::uint8_t>();
  auto *to = out.as<std::uint8_t>();
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t x = 0; x < columns; ++x, to += 3) {
      std::int64_t row = swapped ? x : y, column = swapped ? y : x;
      if (up) row = height - 1 - row;
      if (leftwards) column = width - 1 - column;
      std::memcpy(to, from + (row * width + column) * 3, 3);
    }
  return out;
}

Picture decode_picture(const void *bytes, std::size_t size, const Preprocess &rules) {
  using namespace std::string_view_literals;
  const Bytes file{static_cast<const std::uint8_t *>(bytes), size};
  if (starts_with(file, "\xff\xd8\xff")) return decode_jpeg(file, rules);
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return decode_png(file, rules);
  if (starts_with(file, "RIFF") && starts_with(file, "WEBP", 8)) return decode_webp(file, rules);
  if (is_tiff(file)) return decode_tiff(file, rules);
  // Two letters start many a text: the byte after them decides.
  if (starts_with(file, "BM") && !looks_like_text(file)) return decode_bmp(file, rules);
  if (size > 2 && file.data[0] == 'P' && file.data[1] >= '1' && file.data[1] <= '6' &&
      std::strchr(" \t\r\n#", file.data[2]) && file.data[2])
    return decode_pnm(file, rules);
  throw DecodeError(describe_unknown(file));
}

} // namespace tl::data
