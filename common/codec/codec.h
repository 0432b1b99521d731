// How a tensor is written when it crosses the link or lies in a shard: the form of its numbers, and
// zstd around them or not.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tl::codec {

enum class Number {
  fp32, // as it was computed: f32, or the value's own type
  bf16, // the upper half of f32, rounded
  int8, // 8 bits, and a scale for each channel of each record
  u8,   // pixels before scaling and normalisation, in one byte each
};

struct Codec {
  Number number = Number::fp32;
  bool zstd = false;

  static const Codec fp32, u8;

  /// What arrives is what was sent, bit by bit.
  bool exact() const { return number == Number::fp32 || number == Number::u8; }

  friend bool operator==(Codec a, Codec b) { return a.number == b.number && a.zstd == b.zstd; }
  friend bool operator!=(Codec a, Codec b) { return !(a == b); }
};
inline constexpr Codec Codec::fp32{Number::fp32, false};
inline constexpr Codec Codec::u8{Number::u8, false};

inline constexpr std::array<Codec, 8> kCodecs = {{{Number::fp32, false},
                                                  {Number::fp32, true},
                                                  {Number::bf16, false},
                                                  {Number::bf16, true},
                                                  {Number::int8, false},
                                                  {Number::int8, true},
                                                  {Number::u8, false},
                                                  {Number::u8, true}}};

/// The names of all of them, for options.
std::vector<std::string> names();

/// "fp32", "bf16", "int8", "u8".
std::string_view name_of(Number number);
/// The number's, and "+zstd".
std::string name_of(Codec codec);

/// Throws FormatError for a name that is none of these.
Number number_from_name(std::string_view name);
Codec codec_from_name(std::string_view name);

} // namespace tl::codec
