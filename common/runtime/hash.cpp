#include "runtime/hash.h"

#include "cli/error.h"

#include <xxhash.h>

#include <cstdio>

namespace tl {

namespace {
Digest from_xxh(XXH128_hash_t h) { return {h.high64, h.low64}; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}
} // namespace

std::string Digest::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Digest Digest::from_hex(std::string_view text) {
  Digest d;
  bool good = text.size() == 32;
  for (std::size_t i = 0; good && i < 32; ++i) {
    const int value = hex_value(text[i]);
    good = value >= 0;
    std::uint64_t &half = i < 16 ? d.high : d.low;
    half = (half << 4) | static_cast<std::uint64_t>(value & 15);
  }
  if (!good) throw FormatError("'" + std::string(text) + "' is not a digest of 32 hex digits");
  return d;
}

Digest hash_bytes(const void *data, std::size_t size) { return from_xxh(XXH3_128bits(data, size)); }

struct Hasher::State {
  XXH3_state_t *xxh = XXH3_createState();
  State() { XXH3_128bits_reset(xxh); }
  ~State() { XXH3_freeState(xxh); }
  State(const State &) = delete;
  State &operator=(const State &) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher &&) noexcept = default;
Hasher &Hasher::operator=(Hasher &&) noexcept = default;

Hasher &Hasher::raw(const void *data, std::size_t size) {
  XXH3_128bits_update(state_->xxh, data, size);
  return *this;
}

Hasher &Hasher::add(std::string_view field) {
  add(static_cast<std::int64_t>(field.size()));
  return raw(field.data(), field.size());
}

Hasher &Hasher::add(const Digest &digest) {
  return raw(&digest.high, sizeof digest.high).raw(&digest.low, sizeof digest.low);
}

Hasher &Hasher::add(std::int64_t number) { return raw(&number, sizeof number); }

Digest Hasher::digest() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

std::uint64_t mix(std::uint64_t seed, const Digest &digest) {
  const std::uint64_t fields[3] = {seed, digest.high, digest.low};
  return XXH3_64bits(fields, sizeof fields);
}

} // namespace tl
