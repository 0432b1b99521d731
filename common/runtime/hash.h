// 128-bit content hashes (XXH3): identity of records, parameters, graph values and plans.
// Not cryptographic: it detects change and damage, not an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tl {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
  /// Throws FormatError unless `text` is what hex() writes.
  static Digest from_hex(std::string_view text);

  friend bool operator==(const Digest &a, const Digest &b) { return a.high == b.high && a.low == b.low; }
  friend bool operator!=(const Digest &a, const Digest &b) { return !(a == b); }
  friend bool operator<(const Digest &a, const Digest &b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  }
};

/// Hash of one block of bytes.
Digest hash_bytes(const void *data, std::size_t size);
inline Digest hash_text(std::string_view text) { return hash_bytes(text.data(), text.size()); }

/// Hash of a sequence of fields. Fields are length-prefixed, so ("ab","c") != ("a","bc").
class Hasher {
public:
  Hasher();
  ~Hasher();
  Hasher(Hasher &&) noexcept;
  Hasher &operator=(Hasher &&) noexcept;

  Hasher &add(std::string_view field);
  Hasher &add(const Digest &digest);
  Hasher &add(std::int64_t number);
  /// Raw bytes, not length-prefixed: for streaming one field in pieces.
  Hasher &raw(const void *data, std::size_t size);
  Digest digest() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A well-mixed 64-bit number from a seed and a digest: orders and splits records reproducibly on
/// every platform, independent of their storage order.
std::uint64_t mix(std::uint64_t seed, const Digest &digest);

} // namespace tl

template <> struct std::hash<tl::Digest> {
  std::size_t operator()(const tl::Digest &d) const noexcept { return d.low ^ (d.high << 1); }
};
