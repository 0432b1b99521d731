// The frames of a stream, shared by its two ends.
#pragma once

#include "runtime/hash.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tl::shard::frame {

// As in PNG: the first byte is no text, and the line ends break visibly if anything translates them.
constexpr std::string_view kMagic("\x89TLS\r\n\x1a\n", 8);
constexpr std::uint32_t kVersion = 1;

// Tags are 4 bytes, then a length of 8 bytes, the payload, and 16 bytes of digest over all three.
constexpr std::size_t kTagBytes = 4;
constexpr std::size_t kHeadBytes = kTagBytes + 8;
constexpr std::size_t kDigestBytes = 16;
constexpr std::string_view kMeta = "META"; // first: what all shards have in common
constexpr std::string_view kShard = "SHRD";
constexpr std::string_view kDone = "DONE"; // last: the counts
constexpr std::string_view kFail = "FAIL"; // last: why the sender gave up

/// Most payload that is believed of each kind.
constexpr std::uint64_t kMaxText = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxShard = std::uint64_t{16} << 30;

inline std::array<std::byte, kHeadBytes> head(std::string_view tag, std::uint64_t length) {
  std::array<std::byte, kHeadBytes> bytes{};
  for (std::size_t i = 0; i < kTagBytes; ++i) bytes[i] = static_cast<std::byte>(tag[i]);
  for (std::size_t i = 0; i < 8; ++i) bytes[kTagBytes + i] = static_cast<std::byte>(length >> (8 * i) & 0xFF);
  return bytes;
}

inline std::uint64_t length_of(const std::array<std::byte, kHeadBytes> &head) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(head[kTagBytes + i]);
  return length;
}

} // namespace tl::shard::frame
