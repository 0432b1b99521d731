#include "codec/numbers.h"

#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace tl;
using namespace tl::codec;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor tensor_of(const Shape &shape, const std::vector<float> &values) {
  Tensor tensor = Tensor::empty(DType::f32, shape);
  REQUIRE(tensor.elements() == static_cast<std::int64_t>(values.size()));
  if (!values.empty()) std::memcpy(tensor.data.get(), values.data(), tensor.bytes());
  return tensor;
}

/// Numbers of every magnitude, with zeros among them.
std::vector<float> numbers(std::size_t count, int least_exponent, int most_exponent, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-2, 2);
  std::uniform_int_distribution<int> exponent(least_exponent, most_exponent);
  std::vector<float> values(count);
  for (float &value : values)
    value = random() % 5 == 0 ? 0.0F : std::ldexp(mantissa(random), exponent(random));
  return values;
}

float bf16_of(float value) { return from_bf16(to_bf16(tensor_of({1}, {value}))).as<float>()[0]; }

float from_bits(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

const std::vector<Shape> kShapes = {{},        {1},       {7},          {512},   {4, 4, 4}, {1, 5, 5},
                                    {3, 1, 1}, {0},       {2, 0, 3},    {16, 1}, {197, 24}, {15, 24},
                                    {1, 64},   {5, 3, 6}, {2, 3, 4, 5}, {8, 16}, {64, 2, 8}};

} // namespace

TEST_CASE("bf16 is the nearest of the two neighbours, ties to the even one") {
  for (const float value : numbers(20000, -120, 120, 1)) {
    const float got = bf16_of(value);
    CHECK(std::abs(got - value) <= std::ldexp(std::abs(value), -8));
    std::uint32_t bits = 0;
    std::memcpy(&bits, &got, sizeof bits);
    CHECK((bits & 0xFFFF) == 0);
  }
  CHECK(bf16_of(from_bits(0x3F808000)) == from_bits(0x3F800000)); // halfway: down to even
  CHECK(bf16_of(from_bits(0x3F818000)) == from_bits(0x3F820000)); // halfway: up to even
  CHECK(bf16_of(from_bits(0x3F808001)) == from_bits(0x3F810000));
  CHECK(bf16_of(from_bits(0x3F807FFF)) == from_bits(0x3F800000));
}

TEST_CASE("bf16 keeps zeros, subnormals, infinities and not-a-numbers what they are") {
  CHECK(std::signbit(bf16_of(-0.0F)));
  CHECK(bf16_of(kInf) == kInf);
  CHECK(bf16_of(-kInf) == -kInf);
  CHECK(bf16_of(FLT_MAX) == kInf); // as IEEE 754 rounds
  CHECK(bf16_of(from_bits(0x7F7F0000)) == from_bits(0x7F7F0000));
  CHECK(bf16_of(from_bits(0x00010000)) == from_bits(0x00010000));
  for (const std::uint32_t bits : {0x7FC00000U, 0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    CHECK(std::isnan(bf16_of(from_bits(bits))));
    CHECK(std::signbit(bf16_of(from_bits(bits))) == (bits >> 31 != 0));
  }
}

TEST_CASE("bf16 of any shape comes back in that shape, and a second time unchanged") {
  for (const Shape &record : kShapes) {
    Shape shape{3};
    shape.insert(shape.end(), record.begin(), record.end());
    const auto count = static_cast<std::size_t>(element_count(shape));
    const Tensor coded = to_bf16(tensor_of(shape, numbers(count, -10, 10, 2)));
    CHECK(coded.dtype == DType::bf16);
    const Tensor decoded = from_bf16(coded);
    CHECK(decoded.shape == shape);
    CHECK(std::memcmp(to_bf16(decoded).data.get(), coded.data.get(), coded.bytes()) == 0);
  }
}

TEST_CASE("scales follow the channels, and are one where more would outweigh what they save") {
  CHECK(scale_shape({}).empty());
  CHECK(scale_shape({512}) == Shape{1});
  CHECK(scale_shape({64, 7, 7}) == Shape{64, 1, 1});
  CHECK(scale_shape({64, 3, 4, 5}) == Shape{64, 1, 1, 1});
  CHECK(scale_shape({64, 4, 4}) == Shape{64, 1, 1});
  CHECK(scale_shape({64, 3, 5}) == Shape{1, 1, 1});
  CHECK(scale_shape({197, 768}) == Shape{1, 768});
  CHECK(scale_shape({15, 768}) == Shape{1, 1});
  CHECK(scale_shape({0}) == Shape{1});
  CHECK(scale_shape({0, 7, 7}) == Shape{1, 1, 1});
}

TEST_CASE("int8 errs by at most half of the scale that covers an element") {
  for (const Shape &record : kShapes)
    for (const int magnitude : {-140, -120, 0, 100, 126}) {
      constexpr std::int64_t kRows = 3;
      Shape shape{kRows};
      shape.insert(shape.end(), record.begin(), record.end());
      const auto count = static_cast<std::size_t>(element_count(shape));
      const std::vector<float> values = numbers(count, magnitude - 4, magnitude, 3);
      const Scaled scaled = to_int8(tensor_of(shape, values));
      CHECK(scaled.values.dtype == DType::i8);
      CHECK(scaled.values.shape == shape);
      const Tensor decoded = from_int8(scaled.values, scaled.scales);
      REQUIRE(decoded.shape == shape);
      // The scale of an element, found the slow way.
      const Shape scales = scale_shape(record);
      const std::int64_t per_row = element_count(scales), elements = element_count(record);
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = static_cast<std::int64_t>(i) / std::max<std::int64_t>(elements, 1);
        const auto within = static_cast<std::int64_t>(i) % std::max<std::int64_t>(elements, 1);
        std::int64_t channel = 0;
        if (per_row > 1) channel = record.size() == 2 ? within % record[1] : within / (elements / record[0]);
        const float scale = scaled.scales.as<float>()[row * per_row + channel];
        const double error = std::abs(static_cast<double>(decoded.as<float>()[i]) - values[i]);
        CHECK(error <= static_cast<double>(scale) * 0.50002);
        CHECK(scaled.values.as<std::int8_t>()[i] >= -127);
      }
    }
}

TEST_CASE("int8 spends its range on the largest magnitude of a channel") {
  std::vector<float> values(2 * 16, 0.5F);
  values[3] = -254; // channel 0
  values[20] = 0.5F;
  const Scaled scaled = to_int8(tensor_of({1, 2, 4, 4}, values));
  CHECK(scaled.scales.shape == Shape{1, 2, 1, 1});
  CHECK(scaled.scales.as<float>()[0] == 2);
  CHECK(scaled.values.as<std::int8_t>()[3] == -127);
  CHECK(scaled.values.as<std::int8_t>()[0] == 0);
  CHECK(scaled.values.as<std::int8_t>()[20] == 127);
}

TEST_CASE("int8 of zeros, of the largest and of the smallest floats stays finite") {
  for (const float extreme : {0.0F, FLT_MAX, -FLT_MAX, FLT_MIN, FLT_TRUE_MIN}) {
    const Scaled scaled = to_int8(tensor_of({1, 2}, {extreme, 0}));
    const Tensor decoded = from_int8(scaled.values, scaled.scales);
    CHECK(std::isfinite(decoded.as<float>()[0]));
    CHECK(decoded.as<float>()[1] == 0);
    if (std::abs(extreme) > 1) CHECK(decoded.as<float>()[0] == doctest::Approx(extreme));
  }
}

TEST_CASE("a record's integers depend on no other record") {
  const Shape record{4, 5, 5};
  const std::vector<float> values = numbers(3 * 100, -8, 8, 4);
  const Scaled all = to_int8(tensor_of({3, 4, 5, 5}, values));
  for (std::size_t row = 0; row < 3; ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(100 * row);
    const Scaled one = to_int8(tensor_of({1, 4, 5, 5}, {begin, begin + 100}));
    CHECK(std::memcmp(one.values.data.get(), all.values.data.get() + 100 * row, 100) == 0);
    CHECK(std::memcmp(one.scales.data.get(), all.scales.data.get() + 16 * row, 16) == 0);
  }
}

TEST_CASE("int8 refuses what it cannot express, naming the row") {
  for (const float bad : {kInf, -kInf, kNaN, -kNaN})
    for (const Shape &shape : {Shape{3, 20}, Shape{3, 20, 1}, Shape{3, 1, 4, 5}}) {
      std::vector<float> values(60, 1.0F);
      values[47] = bad;
      std::int64_t row = -1;
      try {
        to_int8(tensor_of(shape, values));
      } catch (const NotFinite &error) {
        row = error.row;
      }
      CHECK(row == 2);
    }
}

TEST_CASE("scales of another shape are refused") {
  const Scaled scaled = to_int8(tensor_of({2, 4, 4, 4}, numbers(128, 0, 1, 5)));
  CHECK_THROWS_AS(from_int8(scaled.values, Tensor::empty(DType::f32, {2, 1, 1, 1})), FormatError);
  CHECK_THROWS_AS(from_int8(scaled.values, Tensor::empty(DType::f32, {1, 4, 1, 1})), FormatError);
  CHECK_THROWS_AS(from_int8(scaled.values, Tensor::empty(DType::i32, {2, 4, 1, 1})), FormatError);
}
