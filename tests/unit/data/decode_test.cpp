#include "data/decode.h"
#include "support/files.h"
#include "support/pictures.h"

#include <doctest/doctest.h>
#include <opencv2/imgcodecs.hpp>
#include <sys/resource.h>

#include <cmath>
#include <cstring>

using namespace tl;
using namespace tl::data;
using namespace tl::test;

namespace {

Picture decode(const std::string &bytes, const Preprocess &rules = {}) {
  return decode_picture(bytes.data(), bytes.size(), rules);
}

/// The reason for refusing; "" when it is accepted.
std::string refusal(const std::string &bytes, const Preprocess &rules = {}) {
  try {
    decode(bytes, rules);
    return "";
  } catch (const DecodeError &error) {
    return error.what();
  }
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

int pixel(const Picture &picture, std::int64_t x, std::int64_t y, int c) {
  return picture.pixels.as<std::uint8_t>()[(y * picture.pixels.shape[1] + x) * 3 + c];
}

double mean_difference(const Picture &picture, const Raster &raster) {
  REQUIRE(picture.pixels.shape == Shape{raster.height, raster.width, 3});
  double sum = 0;
  for (int y = 0; y < raster.height; ++y)
    for (int x = 0; x < raster.width; ++x)
      for (int c = 0; c < 3; ++c)
        sum += std::abs(pixel(picture, x, y, c) - raster.at(x, y, raster.channels < 3 ? 0 : c));
  return sum / static_cast<double>(picture.pixels.elements());
}

bool same(const Picture &a, const Picture &b) {
  return a.pixels.shape == b.pixels.shape &&
         !std::memcmp(a.pixels.data.get(), b.pixels.data.get(), a.pixels.bytes());
}

std::vector<std::pair<std::string, std::string>> jpeg_kinds() {
  const Raster raster = gradient(256, 256);
  JpegOptions progressive, split, restarts;
  progressive.progressive = true;
  split.one_scan_each = true;
  restarts.restart_rows = 1;
  return {{"baseline", encode_jpeg(raster)},
          {"progressive", encode_jpeg(raster, progressive)},
          {"a scan for each component", encode_jpeg(raster, split)},
          {"with restart markers", encode_jpeg(raster, restarts)}};
}

std::string opencv_encode(const char *extension, int type, const std::vector<int> &parameters = {}) {
  cv::Mat mat(31, 45, type);
  for (int y = 0; y < mat.rows; ++y)
    for (int x = 0; x < mat.cols * mat.channels(); ++x) {
      const int value = (x * 5 + y * 3) & 255;
      if (mat.depth() == CV_8U)
        mat.ptr<std::uint8_t>(y)[x] = static_cast<std::uint8_t>(value);
      else if (mat.depth() == CV_16U)
        mat.ptr<std::uint16_t>(y)[x] = static_cast<std::uint16_t>(value * 257);
      else
        mat.ptr<float>(y)[x] = static_cast<float>(value) / 255.0F;
    }
  std::vector<std::uint8_t> bytes;
  cv::imencode(extension, mat, bytes, parameters);
  return {bytes.begin(), bytes.end()};
}

} // namespace

TEST_CASE("sound JPEGs of every kind") {
  for (const auto &[kind, bytes] : jpeg_kinds()) {
    CAPTURE(kind);
    const Picture picture = decode(bytes);
    CHECK(picture.warning.empty());
    CHECK(mean_difference(picture, gradient(256, 256)) < 2);
  }
  JpegOptions grey;
  grey.input = grey.stored = JCS_GRAYSCALE;
  const Raster raster(33, 17, 1, [](int x, int y, int) { return x * 7 + y; });
  CHECK(mean_difference(decode(encode_jpeg(raster, grey)), raster) < 2);
  JpegOptions rgb;
  rgb.stored = JCS_RGB;
  CHECK(mean_difference(decode(encode_jpeg(gradient(64, 48), rgb)), gradient(64, 48)) < 2);
}

TEST_CASE("a JPEG cut anywhere is damaged; one without its end marker is accepted with a warning") {
  for (const auto &[kind, bytes] : jpeg_kinds()) {
    CAPTURE(kind);
    for (const double part : {0.01, 0.1, 0.6, 0.9, 0.99}) {
      CAPTURE(part);
      const auto size = static_cast<std::size_t>(static_cast<double>(bytes.size()) * part);
      CHECK(contains(refusal(bytes.substr(0, size)), "JPEG"));
    }
    for (std::size_t cut = 12; cut < 400; cut += 7) {
      CAPTURE(cut);
      CHECK(contains(refusal(bytes.substr(0, bytes.size() - cut)), "JPEG"));
    }
  }
  const auto kinds = jpeg_kinds();
  for (const std::size_t i : {0U, 1U, 3U}) {
    const std::string &bytes = kinds[i].second;
    CAPTURE(kinds[i].first);
    const Picture whole = decode(bytes);
    for (const std::size_t cut : {1U, 2U}) {
      const Picture picture = decode(bytes.substr(0, bytes.size() - cut));
      CHECK(contains(picture.warning, "end marker"));
      CHECK(same(picture, whole));
    }
  }
  // Where only the end marker tells whether the last scan is whole, it must be there.
  CHECK(contains(refusal(kinds[2].second.substr(0, kinds[2].second.size() - 2)), "JPEG"));
}

TEST_CASE("a progressive JPEG cut exactly between two scans is damaged") {
  const std::string bytes = jpeg_kinds()[1].second;
  int scans = 0;
  for (std::size_t at = bytes.find("\xff\xda"); at != std::string::npos;
       at = bytes.find("\xff\xda", at + 2)) {
    if (scans++ == 0) continue;
    // Before the scan's header and the Huffman tables in front of it.
    std::size_t cut = at;
    const std::size_t table = bytes.rfind("\xff\xc4", at);
    if (table != std::string::npos && at - table < 400) cut = table;
    CHECK(contains(refusal(bytes.substr(0, cut)), "JPEG"));
    CHECK(contains(refusal(bytes.substr(0, at)), "JPEG"));
  }
  CHECK(scans > 5);
}

TEST_CASE("bytes overwritten in the middle of a scan do not go unnoticed") {
  for (const auto &[kind, sound] : jpeg_kinds()) {
    int noticed = 0, changed = 0;
    for (int seed = 1; seed <= 20; ++seed) {
      std::string bytes = sound;
      for (std::size_t i = 0; i < 40; ++i)
        bytes[bytes.size() / 2 + i] =
            static_cast<char>((i + 1) * 2654435761U * static_cast<unsigned>(seed) >> 9);
      changed += bytes != sound;
      noticed += !refusal(bytes).empty();
    }
    CAPTURE(kind);
    CHECK(changed == 20);
    CHECK(noticed >= 19); // a scan has no checksum: some bytes decode to other pixels without a trace
  }
}

TEST_CASE("bytes that carry nothing before a marker are accepted with a warning, others are not") {
  const std::string bytes = jpeg_kinds()[0].second;
  const std::string body = bytes.substr(0, bytes.size() - 2), end = bytes.substr(bytes.size() - 2);
  for (const std::size_t count : {16U, 40U}) { // fewer vanish in the decoder's bit buffer
    CAPTURE(count);
    const Picture picture = decode(body + std::string(count, '\0') + end);
    CHECK(contains(picture.warning, "extraneous"));
    CHECK(same(picture, decode(bytes)));
    CHECK(contains(refusal(body + std::string(count, 'x') + end), "extraneous"));
  }
  CHECK(decode(bytes + "anything behind the picture").warning.empty());
}

TEST_CASE("CMYK and YCCK") {
  const Raster rgb(64, 32, 3, [](int x, int, int c) { return (x < 32 ? c == 0 : c == 2) ? 255 : 0; });
  // Adobe writes inks inverted: 255 is none.
  const Raster inks(64, 32, 4, [&](int x, int y, int c) { return c == 3 ? 255 : rgb.at(x, y, c); });
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    JpegOptions options;
    options.input = JCS_CMYK;
    options.stored = stored;
    CHECK(mean_difference(decode(encode_jpeg(inks, options)), rgb) < 4);
    const Raster dark(64, 32, 4, [&](int x, int y, int c) { return c == 3 ? 128 : rgb.at(x, y, c); });
    CHECK(std::abs(pixel(decode(encode_jpeg(dark, options)), 8, 8, 0) - 128) < 4);
  }
  JpegOptions bare;
  bare.input = bare.stored = JCS_CMYK;
  bare.adobe = false;
  CHECK(contains(refusal(encode_jpeg(inks, bare)), "CMYK without an Adobe marker"));
}

TEST_CASE("EXIF orientation: ignored by default, applied when asked for, in every direction") {
  // Corners: red, green, blue, white, as the stored picture has them (clockwise from top left).
  static const int kCorner[4][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}};
  const Raster raster(64, 48, 3, [](int x, int y, int c) {
    return kCorner[y < 24 ? (x < 32 ? 0 : 1) : (x < 32 ? 3 : 2)][c];
  });
  // Which stored corner is seen at top left, top right, bottom right, bottom left.
  static const int kSeen[9][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0},
                                  {0, 3, 2, 1}, {3, 0, 1, 2}, {2, 1, 0, 3}, {1, 2, 3, 0}};
  const auto corners = [&](const Picture &picture, const int(&want)[4]) {
    const std::int64_t w = picture.pixels.shape[1], h = picture.pixels.shape[0];
    const std::int64_t x[4] = {4, w - 5, w - 5, 4}, y[4] = {4, 4, h - 5, h - 5};
    for (int i = 0; i < 4; ++i)
      for (int c = 0; c < 3; ++c) CHECK(std::abs(pixel(picture, x[i], y[i], c) - kCorner[want[i]][c]) < 12);
  };
  Preprocess apply;
  apply.exif = ExifRule::apply;
  for (int tag = 0; tag <= 9; ++tag) {
    CAPTURE(tag);
    JpegOptions jpeg;
    jpeg.orientation = tag;
    PngOptions png;
    png.orientation = tag;
    const auto row = [&](int y) {
      return std::vector<std::uint8_t>(raster.data.begin() + y * 192, raster.data.begin() + (y + 1) * 192);
    };
    for (const std::string &bytes : {encode_jpeg(raster, jpeg), encode_png(64, 48, png, row)}) {
      const Picture stored = decode(bytes), upright = decode(bytes, apply);
      CHECK(stored.pixels.shape == Shape{48, 64, 3});
      corners(stored, kSeen[0]);
      const bool turned = tag >= 5 && tag <= 8;
      CHECK(upright.pixels.shape == (turned ? Shape{64, 48, 3} : Shape{48, 64, 3}));
      corners(upright, kSeen[tag == 9 ? 0 : tag]);
    }
  }
}

TEST_CASE("damaged EXIF is no orientation, and never a crash") {
  JpegOptions options;
  options.orientation = 6;
  const std::string sound = encode_jpeg(gradient(16, 8), options);
  const std::size_t begin = sound.find("Exif");
  Preprocess apply;
  apply.exif = ExifRule::apply;
  CHECK(decode(sound, apply).pixels.shape == Shape{16, 8, 3});
  for (std::size_t i = begin; i < begin + 32; ++i)
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::string bytes = sound;
      bytes[i] = static_cast<char>(value);
      const Shape shape = decode(bytes, apply).pixels.shape;
      CHECK((shape == Shape{16, 8, 3} || shape == Shape{8, 16, 3}));
    }
}

TEST_CASE("PNG of 16 bits is scaled") {
  PngOptions grey;
  grey.depth = 16;
  grey.colour = PNG_COLOR_TYPE_GRAY;
  const auto sample = [](std::vector<std::uint8_t> &row, int value) {
    row.push_back(static_cast<std::uint8_t>(value >> 8));
    row.push_back(static_cast<std::uint8_t>(value & 255));
  };
  for (const int value : {0, 1, 128, 129, 300, 20000, 32768, 40000, 65407, 65535}) {
    const Picture picture = decode(encode_png(8, 8, grey, [&](int) {
      std::vector<std::uint8_t> row;
      for (int x = 0; x < 8; ++x) sample(row, value);
      return row;
    }));
    for (int c = 0; c < 3; ++c) CHECK(pixel(picture, 3, 3, c) == std::lround(value * 255.0 / 65535.0));
  }
  PngOptions rgb;
  rgb.depth = 16;
  const Picture picture = decode(encode_png(4, 4, rgb, [&](int) {
    std::vector<std::uint8_t> row;
    for (int x = 0; x < 4; ++x)
      for (const int value : {40000, 20000, 300}) sample(row, value);
    return row;
  }));
  CHECK(pixel(picture, 1, 1, 0) == 156);
  CHECK(pixel(picture, 1, 1, 1) == 78);
  CHECK(pixel(picture, 1, 1, 2) == 1);
}

TEST_CASE("PNG: grey, palette, few bits, alpha dropped, interlaced") {
  const Raster grey(9, 7, 1, [](int x, int y, int) { return x * 20 + y; });
  CHECK(mean_difference(decode(encode_png(grey)), grey) == 0);
  const Raster rgb = gradient(21, 13);
  CHECK(mean_difference(decode(encode_png(rgb)), rgb) == 0);
  const Raster rgba(21, 13, 4, [&](int x, int y, int c) { return c == 3 ? 0 : rgb.at(x, y, c); });
  CHECK(mean_difference(decode(encode_png(rgba)), rgb) == 0); // under full transparency the colour stays
  const Raster grey_alpha(9, 7, 2, [&](int x, int y, int c) { return c == 1 ? 3 : grey.at(x, y, 0); });
  CHECK(mean_difference(decode(encode_png(grey_alpha)), grey) == 0);
  PngOptions interlaced;
  interlaced.interlaced = true;
  CHECK(mean_difference(decode(encode_png(21, 13, interlaced,
                                          [&](int y) {
                                            return std::vector<std::uint8_t>(rgb.data.begin() + y * 63,
                                                                             rgb.data.begin() + (y + 1) * 63);
                                          })),
                        rgb) == 0);
  for (const bool transparent : {false, true}) {
    PngOptions palette;
    palette.depth = 2;
    palette.colour = PNG_COLOR_TYPE_PALETTE;
    palette.palette = {{10, 20, 30}, {200, 100, 50}, {0, 0, 255}};
    if (transparent) palette.transparency = {0, 128};
    const Picture picture =
        decode(encode_png(4, 1, palette, [](int) { return std::vector<std::uint8_t>{0x18}; }));
    CHECK(pixel(picture, 0, 0, 1) == 20); // indexes 0 1 2 0
    CHECK(pixel(picture, 1, 0, 0) == 200);
    CHECK(pixel(picture, 2, 0, 2) == 255);
  }
  PngOptions bits;
  bits.depth = 1;
  bits.colour = PNG_COLOR_TYPE_GRAY;
  const Picture picture = decode(encode_png(8, 1, bits, [](int) { return std::vector<std::uint8_t>{0xA0}; }));
  CHECK(pixel(picture, 0, 0, 0) == 255);
  CHECK(pixel(picture, 1, 0, 1) == 0);
  CHECK(pixel(picture, 2, 0, 2) == 255);
}

TEST_CASE("a PNG cut or changed anywhere is damaged") {
  const std::string sound = encode_png(gradient(40, 30));
  for (std::size_t size = 8; size < sound.size(); size += 3) {
    CAPTURE(size);
    CHECK(contains(refusal(sound.substr(0, size)), "damaged PNG"));
  }
  const std::size_t data = sound.find("IDAT");
  for (std::size_t i = data + 4; i < sound.size() - 12; i += 5) {
    std::string bytes = sound;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
    CHECK_FALSE(refusal(bytes).empty());
  }
}

TEST_CASE("huge dimensions in a small file are refused by their header, in little memory") {
  PngOptions bits;
  bits.depth = 1;
  bits.colour = PNG_COLOR_TYPE_GRAY;
  for (const int side : {20000, 40000}) {
    const std::string png = encode_png(side, side, bits, [&](int) {
      return std::vector<std::uint8_t>(static_cast<std::size_t>(side + 7) / 8);
    });
    CHECK(png.size() < 400'000);
    const std::string size = std::to_string(side) + "x" + std::to_string(side);
    rusage before = {}, after = {};
    getrusage(RUSAGE_SELF, &before);
    CHECK(contains(refusal(png), size + " pixels is over --max-pixels 100000000"));
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 20'000); // KiB
  }
  const Raster raster = gradient(64, 48);
  std::vector<std::string> files = {encode_jpeg(raster), encode_png(raster)};
  for (const char *extension : {".bmp", ".webp", ".tiff", ".ppm"})
    files.push_back(opencv_encode(extension, CV_8UC3));
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    Preprocess exact;
    exact.max_pixels = i < 2 ? 64 * 48 : 45 * 31;
    CHECK(refusal(files[i], exact).empty());
    --exact.max_pixels;
    CHECK(contains(refusal(files[i], exact), "over --max-pixels"));
  }
}

TEST_CASE("headers that declare absurd sizes") {
  std::string jpeg = encode_jpeg(gradient(16, 16));
  const std::size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, "\x7f\xff\x7f\xff");
  CHECK(contains(refusal(jpeg), "over --max-pixels"));
  jpeg.replace(frame + 5, 4, std::string(4, '\0'));
  CHECK_FALSE(refusal(jpeg).empty());
  for (const char *extension : {".bmp", ".webp", ".tiff", ".ppm"}) {
    const std::string sound = opencv_encode(extension, CV_8UC3);
    CAPTURE(extension);
    for (std::size_t i = 2; i < std::min<std::size_t>(sound.size(), 60); ++i)
      for (const int value : {0x00, 0x7F, 0xFF}) {
        std::string bytes = sound;
        bytes[i] = static_cast<char>(value);
        refusal(bytes); // accepted or refused, but by a DecodeError
      }
  }
}

TEST_CASE("the content decides, not the name") {
  CHECK(refusal("") == "0 bytes");
  CHECK(
      contains(refusal("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), "looks like XML"));
  CHECK(contains(refusal("\xef\xbb\xbf\n  <!DOCTYPE html><html>"), "looks like XML"));
  CHECK(contains(refusal("BMW is a car\n"), "looks like text"));
  CHECK(contains(refusal("P5 is a headline"), "PNM"));
  CHECK(contains(refusal("hello, world\n"), "looks like text"));
  CHECK(contains(refusal("version https://git-lfs.github.com/spec/v1\n"), "looks like text"));
  CHECK(contains(refusal(std::string("GIF89a\x02\0\x01\0", 10)), "GIF is not supported"));
  CHECK(contains(refusal("PK\x03\x04 and so on"), "zip"));
  CHECK(contains(refusal(std::string("\x1f\x8b\x08\0", 4)), "gzip"));
  CHECK(contains(refusal(std::string("\0\0\0\x1c"
                                     "ftypheic\0\0",
                                     14)),
                 "HEIC"));
  CHECK(contains(refusal(std::string(64, '\0')), "not a picture of a known format"));
  for (const char *magic :
       {"\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "RIFF\x08\x01\x01\x01WEBP", "BM\x01\x02\x03\x04", "P5 "}) {
    CAPTURE(magic);
    CHECK_FALSE(refusal(magic).empty());
  }
}

TEST_CASE("BMP, WebP, TIFF and PNM, whole and cut") {
  struct Case {
    const char *extension;
    int type;
    std::vector<int> parameters;
    double tolerance;
  };
  const Raster rgb(45, 31, 3, [](int x, int y, int c) { return ((x * 3 + 2 - c) * 5 + y * 3) & 255; });
  const Raster grey(45, 31, 1, [](int x, int y, int) { return (x * 5 + y * 3) & 255; });
  for (const Case &c :
       {Case{".bmp", CV_8UC3, {}, 0}, Case{".bmp", CV_8UC1, {}, 0}, Case{".ppm", CV_8UC3, {}, 0},
        Case{".pgm", CV_8UC1, {}, 0}, Case{".pgm", CV_16UC1, {}, 0}, Case{".tiff", CV_8UC3, {}, 0},
        Case{".tiff", CV_16UC3, {}, 0}, Case{".tiff", CV_8UC1, {}, 0},
        Case{".tiff", CV_8UC3, {cv::IMWRITE_TIFF_COMPRESSION, 1}, 0},
        Case{".webp", CV_8UC3, {cv::IMWRITE_WEBP_QUALITY, 101}, 0},
        Case{".webp", CV_8UC3, {cv::IMWRITE_WEBP_QUALITY, 90}, 40}}) {
    CAPTURE(c.extension);
    CAPTURE(c.type);
    const std::string bytes = opencv_encode(c.extension, c.type, c.parameters);
    CHECK(mean_difference(decode(bytes), CV_MAT_CN(c.type) == 3 ? rgb : grey) <= c.tolerance);
    for (std::size_t size = 12; size < bytes.size(); size += 1 + bytes.size() / 50) {
      CAPTURE(size);
      const std::string part = bytes.substr(0, size);
      // Formats end with bytes that are no pixels: a pointer to a next page, padding.
      if (refusal(part).empty()) CHECK(same(decode(part), decode(bytes)));
      if (size < bytes.size() * 19 / 20) CHECK_FALSE(refusal(part).empty());
    }
  }
  CHECK(contains(refusal(opencv_encode(".tiff", CV_32FC3)), "not supported"));
}

TEST_CASE("TIFF: orientation, alpha, a strip outside the file") {
  // 2x1 RGB, uncompressed: red, blue. Entries: tag, type, count, value.
  const auto tiff = [](int samples, int orientation, int strip) {
    const int entries[10][3] = {{256, 4, 2}, {257, 4, 1},          {258, 3, 8},           {259, 3, 1},
                                {262, 3, 2}, {273, 4, strip},      {274, 3, orientation}, {277, 3, samples},
                                {278, 4, 1}, {279, 4, 2 * samples}};
    std::string bytes("II*\0\x08\0\0\0\x0a\0", 10);
    for (const auto &entry : entries)
      for (const auto &[value, width] :
           {std::pair<int, int>{entry[0], 2}, {entry[1], 2}, {1, 4}, {entry[2], 4}})
        for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
    bytes += std::string(4, '\0');
    return bytes +
           (samples == 3 ? std::string("\xff\0\0\0\0\xff", 6) : std::string("\xff\0\0\x80\0\0\xff\x80", 8));
  };
  Preprocess apply;
  apply.exif = ExifRule::apply;
  for (int tag = 1; tag <= 8; ++tag) {
    CAPTURE(tag);
    const Picture stored = decode(tiff(3, tag, 134)), upright = decode(tiff(3, tag, 134), apply);
    CHECK(stored.pixels.shape == Shape{1, 2, 3});
    CHECK(pixel(stored, 0, 0, 0) == 255);
    CHECK(pixel(stored, 1, 0, 2) == 255);
    CHECK(upright.pixels.shape == (tag < 5 ? Shape{1, 2, 3} : Shape{2, 1, 3}));
    const bool backwards = tag == 2 || tag == 3 || tag == 7 || tag == 8;
    CHECK(pixel(upright, 0, 0, 0) == (backwards ? 0 : 255));
  }
  CHECK(contains(refusal(tiff(4, 1, 134)), "alpha"));
  for (const int strip : {135, 100000, -1}) CHECK(contains(refusal(tiff(3, 1, strip)), "damaged TIFF"));
}

TEST_CASE("an animated WebP is refused by name") {
  // Only the header matters: VP8X with the animation flag.
  std::string bytes("RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x0f\0\0\x0f\0\0", 30);
  CHECK(contains(refusal(bytes), "animated WebP"));
}

TEST_CASE("random damage to any format never crashes and never escapes as another exception") {
  const Raster raster = gradient(48, 40);
  JpegOptions progressive;
  progressive.progressive = true;
  std::vector<std::string> files = {encode_jpeg(raster), encode_jpeg(raster, progressive),
                                    encode_png(raster)};
  for (const char *extension : {".bmp", ".webp", ".tiff", ".ppm"})
    files.push_back(opencv_encode(extension, CV_8UC3));
  Preprocess rules;
  rules.exif = ExifRule::apply;
  rules.max_pixels = 1'000'000;
  std::uint64_t state = 42;
  const auto random = [&] {
    return state = state * 6364136223846793005U + 1442695040888963407U, state >> 33;
  };
  for (const std::string &sound : files)
    for (int round = 0; round < 300; ++round) {
      std::string bytes = sound.substr(0, round % 3 ? sound.size() : random() % sound.size());
      for (int i = 0; i < 1 + round % 6 && !bytes.empty(); ++i)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      refusal(bytes, rules);
    }
}
