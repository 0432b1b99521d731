#include "cli/error.h"
#include "data/decode.h"
#include "data/prepare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

using namespace tl;
using namespace tl::data;

namespace {

Tensor picture(std::int64_t height, std::int64_t width,
               const std::function<int(std::int64_t, std::int64_t, int)> &value) {
  Tensor t = Tensor::empty(DType::u8, {height, width, 3});
  auto *p = t.as<std::uint8_t>();
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) *p++ = static_cast<std::uint8_t>(value(y, x, c));
  return t;
}

int at(const Tensor &planes, std::int64_t c, std::int64_t y, std::int64_t x) {
  return planes.as<std::uint8_t>()[(c * planes.shape[1] + y) * planes.shape[2] + x];
}

bool same(const Tensor &a, const Tensor &b) {
  return a.dtype == b.dtype && a.shape == b.shape && !std::memcmp(a.data.get(), b.data.get(), a.bytes());
}

int noise(std::int64_t y, std::int64_t x, int c) {
  return static_cast<int>((static_cast<std::uint64_t>(y * 7919 + x * 104729 + c * 31) * 2654435761U >> 13) &
                          255);
}

} // namespace

TEST_CASE("output sizes follow torchvision's rule") {
  struct Case {
    std::int64_t height, width;
    std::vector<std::int64_t> resize;
    Shape want;
  };
  for (const Case &c : {Case{375, 500, {256}, {3, 256, 341}}, Case{500, 375, {256}, {3, 341, 256}},
                        Case{256, 256, {256}, {3, 256, 256}}, Case{10, 10, {20}, {3, 20, 20}},
                        Case{3, 7, {5}, {3, 5, 11}}, Case{375, 500, {32, 48}, {3, 32, 48}},
                        Case{375, 500, {}, {3, 375, 500}}, Case{1, 100, {3}, {3, 3, 300}}}) {
    Preprocess p;
    p.resize = c.resize;
    CHECK(transform_pixels(p, picture(c.height, c.width, noise)).shape == c.want);
  }
}

TEST_CASE("a flat picture stays flat at every size and filter") {
  for (const auto filter : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic})
    for (const bool antialias : {false, true})
      for (const std::int64_t size : {1, 7, 16, 29, 64, 200})
        for (const int level : {0, 1, 127, 254, 255}) {
          Preprocess p;
          p.resize = {size, size + 3};
          p.interpolation = filter;
          p.antialias = antialias;
          const Tensor out = transform_pixels(
              p, picture(53, 41, [&](auto, auto, int c) { return c == 1 ? level : 255 - level; }));
          for (std::int64_t y = 0; y < size; ++y)
            for (std::int64_t x = 0; x < size + 3; ++x) {
              REQUIRE(at(out, 0, y, x) == 255 - level);
              REQUIRE(at(out, 1, y, x) == level);
            }
        }
}

TEST_CASE("bilinear values worked out by hand") {
  Preprocess p;
  p.resize = {1, 2};
  // Halving 4 pixels: triangle of half width 2 at centre 1: weights .75 .75 .25 (and .25 off the edge)
  // over 1.75.
  const Tensor out =
      transform_pixels(p, picture(1, 4, [](auto, std::int64_t x, int) { return static_cast<int>(x * 70); }));
  CHECK(at(out, 0, 0, 0) == std::lround((0.75 * 0 + 0.75 * 70 + 0.25 * 140) / 1.75));
  p.antialias = false; // two taps: the mean of the two middle ones
  const Tensor narrow =
      transform_pixels(p, picture(1, 4, [](auto, std::int64_t x, int) { return static_cast<int>(x * 70); }));
  CHECK(at(narrow, 0, 0, 0) == 35);
  CHECK(at(narrow, 0, 0, 1) == 175);
}

TEST_CASE("the crop is the same pixels as cropping the whole") {
  for (const auto filter : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    Preprocess whole;
    whole.resize = {50};
    whole.interpolation = filter;
    const Tensor in = picture(97, 131, noise);
    const Tensor all = transform_pixels(whole, in);
    Preprocess part = whole;
    part.crop = {31, 40};
    const Tensor cropped = transform_pixels(part, in);
    REQUIRE(all.shape == Shape{3, 50, 67});
    REQUIRE(cropped.shape == Shape{3, 31, 40});
    // (50-31)/2 = 9.5 rounds to even 10; (67-40)/2 = 13.5 to 14.
    for (std::int64_t c = 0; c < 3; ++c)
      for (std::int64_t y = 0; y < 31; ++y)
        for (std::int64_t x = 0; x < 40; ++x) REQUIRE(at(cropped, c, y, x) == at(all, c, y + 10, x + 14));
  }
}

TEST_CASE("halves of a crop's margin round to even") {
  for (const auto &[width, want] :
       {std::pair<std::int64_t, int>{11, 0}, {12, 1}, {13, 2}, {14, 2}, {15, 2}, {17, 4}}) {
    Preprocess p;
    p.crop = {1, 10};
    const Tensor out =
        transform_pixels(p, picture(1, width, [](auto, std::int64_t x, int) { return static_cast<int>(x); }));
    CAPTURE(width);
    CHECK(at(out, 0, 0, 0) == want);
  }
}

TEST_CASE("a picture smaller than the crop is centred on black") {
  Preprocess p;
  p.crop = {6, 4};
  const Tensor out =
      transform_pixels(p, picture(3, 7, [](auto, std::int64_t x, int) { return static_cast<int>(100 + x); }));
  REQUIRE(out.shape == Shape{3, 6, 4});
  for (std::int64_t y = 0; y < 6; ++y)
    for (std::int64_t x = 0; x < 4; ++x) CHECK(at(out, 2, y, x) == (y >= 1 && y < 4 ? 100 + 2 + x : 0));
}

TEST_CASE("grey: replicated to RGB, weighted from RGB") {
  Preprocess p;
  p.channels = 1;
  for (int level = 0; level < 256; ++level)
    REQUIRE(at(transform_pixels(p, picture(1, 1, [&](auto, auto, int) { return level; })), 0, 0, 0) == level);
  const auto only = [&](int channel) {
    return at(transform_pixels(p, picture(1, 1, [&](auto, auto, int c) { return c == channel ? 255 : 0; })),
              0, 0, 0);
  };
  CHECK(only(0) == 76);
  CHECK(only(1) == 150);
  CHECK(only(2) == 29);
}

TEST_CASE("slivers are refused, not resized to nothing or to gigabytes") {
  Preprocess p;
  p.resize = {1000};
  p.max_pixels = 10'000'000;
  CHECK_THROWS_AS(transform_pixels(p, picture(1, 60000, [](auto, auto, int) { return 1; })), DecodeError);
  p.resize = {60000, 100};
  CHECK_NOTHROW(transform_pixels(p, picture(1, 3, [](auto, auto, int) { return 1; })));
}

TEST_CASE("normalising shipped pixels gives the bits of doing it at once") {
  for (const char *text : {"imagenet", "imagenet,channels=1,mean=0.2860,std=0.3530", "raw", "raw,scale=no",
                           "raw,scale=no,mean=100/110/120,std=50/60/70"}) {
    const Preprocess p = parse_preprocess(text);
    Encoded record;
    record.content = picture(60, 80, noise);
    Preparer preparer(p);
    const Tensor direct = preparer.input(record);
    const Tensor pixels = preparer.pixels(record);
    CHECK(pixels.dtype == DType::u8);
    CHECK(same(normalise(p, pixels), direct));
    Tensor batch = Tensor::empty(DType::u8, {1, pixels.shape[0], pixels.shape[1], pixels.shape[2]});
    std::memcpy(batch.data.get(), pixels.data.get(), pixels.bytes());
    const Tensor normal = normalise(p, batch);
    CHECK(normal.shape == batch.shape);
    CHECK(!std::memcmp(normal.data.get(), direct.data.get(), direct.bytes()));
    const float value = pixels.as<std::uint8_t>()[5];
    float want = p.scale ? value / 255.0F : value;
    if (!p.mean.empty()) want = (want - static_cast<float>(p.mean[0])) / static_cast<float>(p.std[0]);
    CHECK(direct.as<float>()[5] == doctest::Approx(want).epsilon(1e-6));
  }
  const Preprocess p = parse_preprocess("imagenet");
  CHECK_THROWS_AS(normalise(p, Tensor::empty(DType::f32, {3, 4, 4})), FormatError);
  CHECK_THROWS_AS(normalise(p, Tensor::empty(DType::u8, {1, 4, 4})), FormatError);
  CHECK_THROWS_AS(normalise(p, Tensor::empty(DType::u8, {4, 4})), FormatError);
}

TEST_CASE("rows of tensors as pictures, numbers and tokens") {
  const auto row = [](DType dtype, Shape shape) {
    Encoded record;
    record.content = Tensor::empty(dtype, std::move(shape));
    std::memset(record.content.data.get(), 0, record.content.bytes());
    return record;
  };
  Preparer grey(parse_preprocess("raw,channels=1"));
  Encoded mnist = row(DType::u8, {2, 3});
  for (int i = 0; i < 6; ++i) mnist.content.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 10);
  CHECK(grey.pixels(mnist).shape == Shape{1, 2, 3});
  CHECK(!std::memcmp(grey.pixels(mnist).data.get(), mnist.content.data.get(), 6));
  Preparer rgb(parse_preprocess("raw"));
  CHECK(at(rgb.pixels(mnist), 2, 1, 2) == 50);
  Encoded planes = row(DType::u8, {3, 2, 2}), interleaved = row(DType::u8, {2, 2, 3});
  planes.content.as<std::uint8_t>()[4] = 9;      // green of pixel 0
  interleaved.content.as<std::uint8_t>()[1] = 9; // the same
  CHECK(same(rgb.pixels(planes), rgb.pixels(interleaved)));
  CHECK_THROWS_AS(rgb.pixels(row(DType::u8, {2, 2, 2})), DecodeError);
  CHECK_THROWS_AS(rgb.pixels(row(DType::f32, {3, 2, 2})), DecodeError);
  CHECK_THROWS_AS(rgb.pixels(row(DType::u8, {5})), DecodeError);

  Preparer numbers(parse_preprocess("kind=tensor,mean=1/2,std=2/4"));
  Encoded floats = row(DType::f32, {2, 2});
  for (int i = 0; i < 4; ++i) floats.content.as<float>()[i] = static_cast<float>(i);
  const Tensor out = numbers.input(floats);
  CHECK(out.as<float>()[0] == -0.5F);
  CHECK(out.as<float>()[3] == 0.25F);
  CHECK_THROWS_AS(numbers.input(row(DType::f32, {3, 2})), DecodeError);
  CHECK_THROWS_AS(numbers.pixels(floats), UsageError);

  Preparer tokens(parse_preprocess("tokens"));
  Encoded ids = row(DType::i32, {4});
  ids.content.as<std::int32_t>()[3] = 7;
  CHECK(tokens.input(ids).dtype == DType::i64);
  CHECK(tokens.input(ids).as<std::int64_t>()[3] == 7);
  CHECK_THROWS_AS(tokens.input(row(DType::f32, {4})), DecodeError);
}
