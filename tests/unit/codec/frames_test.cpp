#include "cli/error.h"
#include "codec/codec.h"
#include "codec/frames.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace tl;
using namespace tl::codec;

namespace {

const std::vector<std::vector<Part>> kLayouts = {{},
                                                 {{0, 4}},
                                                 {{1, 1}},
                                                 {{4, 4}, {0, 1}},
                                                 {{24, 2}, {7, 1}, {40, 8}},
                                                 {{600, 4}},
                                                 {{1000000, 2}},
                                                 {{3000, 1}, {16, 4}},
                                                 {{100000, 4}}};

/// Some of the bytes repeat, as they do in features.
std::vector<std::vector<std::byte>> random_row(const std::vector<Part> &parts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::byte>> row;
  for (const Part &part : parts) {
    row.emplace_back(part.bytes);
    for (std::size_t i = 0; i < part.bytes; ++i)
      row.back()[i] = static_cast<std::byte>(i % 3 == 0 ? random() : seed);
  }
  return row;
}

std::string compress(FrameCoder &coder, const std::vector<std::vector<std::byte>> &row) {
  std::vector<const std::byte *> from;
  for (const auto &part : row) from.push_back(part.data());
  std::string frame;
  coder.compress(from, frame);
  return frame;
}

std::vector<std::vector<std::byte>> decompress(FrameCoder &coder, const std::vector<Part> &parts,
                                               std::string_view frame) {
  std::vector<std::vector<std::byte>> row;
  for (const Part &part : parts) row.emplace_back(part.bytes);
  std::vector<std::byte *> to;
  for (auto &part : row) to.push_back(part.data());
  coder.decompress(frame, to);
  return row;
}

} // namespace

TEST_CASE("codecs are known by their names, and only by them") {
  for (const Codec codec : kCodecs) CHECK(codec_from_name(name_of(codec)) == codec);
  CHECK(name_of(Codec{Number::bf16, true}) == "bf16+zstd");
  CHECK(Codec::fp32.exact());
  CHECK_FALSE(Codec{Number::int8, true}.exact());
  for (const char *name : {"", "zstd", "+zstd", "fp32+", "FP32", "fp32+zstd+zstd", "fp16", "fp32 "})
    CHECK_THROWS_AS(codec_from_name(name), FormatError);
}

TEST_CASE("rows of any layout come back bit by bit, whatever was compressed before") {
  for (const std::vector<Part> &parts : kLayouts) {
    FrameCoder coder(parts), reader(parts);
    for (unsigned seed = 0; seed < 3; ++seed) {
      const auto row = random_row(parts, seed);
      const std::string frame = compress(coder, row);
      CHECK(decompress(reader, parts, frame) == row);
      CHECK(compress(coder, row) == frame);
    }
  }
}

TEST_CASE("frames are appended one after the other") {
  const std::vector<Part> parts = {{64, 4}};
  FrameCoder coder(parts);
  const auto a = random_row(parts, 1), b = random_row(parts, 2);
  std::string frames = compress(coder, a);
  const std::size_t first = frames.size();
  coder.compress({b[0].data()}, frames);
  CHECK(decompress(coder, parts, std::string_view(frames).substr(0, first)) == a);
  CHECK(decompress(coder, parts, std::string_view(frames).substr(first)) == b);
  CHECK_THROWS_AS(decompress(coder, parts, frames), FormatError); // two rows in the place of one
}

TEST_CASE("exponents side by side shrink floats that plain bytes do not") {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> positive(1, 2);
  std::vector<float> values(10000);
  for (float &value : values) value = positive(random);
  FrameCoder planes({{40000, 4}}), plain({{40000, 1}});
  std::string shuffled, straight;
  planes.compress({reinterpret_cast<const std::byte *>(values.data())}, shuffled);
  plain.compress({reinterpret_cast<const std::byte *>(values.data())}, straight);
  CHECK(shuffled.size() < straight.size());
  CHECK(shuffled.size() < 35000);
}

TEST_CASE("cut-off and mutated frames are refused or give a row of the right size") {
  const std::vector<Part> parts = {{400, 4}, {50, 1}};
  FrameCoder coder(parts);
  const std::string frame = compress(coder, random_row(parts, 3));
  for (std::size_t keep = 0; keep < frame.size(); ++keep)
    CHECK_THROWS_AS(decompress(coder, parts, frame.substr(0, keep)), FormatError);
  for (std::size_t at = 0; at < frame.size(); ++at)
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string bent = frame;
      bent[at] = static_cast<char>(bent[at] ^ flip);
      try {
        decompress(coder, parts, bent);
      } catch (const FormatError &) {
      }
    }
}

TEST_CASE("a frame that claims another size is refused by its head") {
  FrameCoder small({{100, 1}}), large({{101, 1}});
  const std::string frame = compress(small, random_row({{100, 1}}, 1));
  small.check(frame);
  CHECK_THROWS_AS(large.check(frame), FormatError);
  // A head that claims 2^40 bytes, and a row of a shape that agrees.
  const std::string bomb("\x28\xB5\x2F\xFD\xE0\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00", 16);
  FrameCoder huge({{std::size_t{1} << 40, 4}});
  CHECK_THROWS_AS(huge.check(bomb), FormatError);
  CHECK_THROWS_AS(huge.decompress(bomb, {nullptr}), FormatError);
}
