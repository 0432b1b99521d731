#include "codec/frames.h"

#include "cli/error.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

namespace tl::codec {

namespace {

constexpr int kLevel = 1; // as fast as the links that are worth it
// A block of 4 bytes can repeat one byte 128 KiB times; zstd has nothing denser.
constexpr std::size_t kMostExpansion = std::size_t{1} << 15;

template <std::size_t Size> void split(const std::byte *from, std::size_t count, std::byte *to) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t b = 0; b < Size; ++b) to[b * count + i] = from[i * Size + b];
}

template <std::size_t Size> void join(const std::byte *from, std::size_t count, std::byte *to) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t b = 0; b < Size; ++b) to[i * Size + b] = from[b * count + i];
}

void split(const Part &part, const std::byte *from, std::byte *to) {
  switch (part.element) {
  case 2:
    return split<2>(from, part.bytes / 2, to);
  case 4:
    return split<4>(from, part.bytes / 4, to);
  case 8:
    return split<8>(from, part.bytes / 8, to);
  default:
    if (part.bytes > 0) std::memcpy(to, from, part.bytes);
  }
}

void join(const Part &part, const std::byte *from, std::byte *to) {
  switch (part.element) {
  case 2:
    return join<2>(from, part.bytes / 2, to);
  case 4:
    return join<4>(from, part.bytes / 4, to);
  case 8:
    return join<8>(from, part.bytes / 8, to);
  default:
    if (part.bytes > 0) std::memcpy(to, from, part.bytes);
  }
}

struct Free {
  void operator()(ZSTD_CCtx *context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx *context) const { ZSTD_freeDCtx(context); }
};

/// Made when it is first needed.
template <class Context, class Make>
Context *ready(std::unique_ptr<Context, Free> &context, const Make &make) {
  if (!context) context.reset(make());
  if (!context) throw std::bad_alloc();
  return context.get();
}

} // namespace

struct FrameCoder::State {
  std::vector<Part> parts;
  std::vector<std::byte> planes; // of one row
  std::unique_ptr<ZSTD_CCtx, Free> compressor;
  std::unique_ptr<ZSTD_DCtx, Free> decompressor;
  std::size_t bytes;

  explicit State(std::vector<Part> list)
      : parts(std::move(list)),
        bytes(std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                              [](std::size_t sum, const Part &part) { return sum + part.bytes; })) {}
};

FrameCoder::FrameCoder(std::vector<Part> parts) : state_(std::make_unique<State>(std::move(parts))) {}
FrameCoder::~FrameCoder() = default;
FrameCoder::FrameCoder(FrameCoder &&) noexcept = default;
FrameCoder &FrameCoder::operator=(FrameCoder &&) noexcept = default;

std::size_t FrameCoder::row_bytes() const { return state_->bytes; }

void FrameCoder::compress(const std::vector<const std::byte *> &row, std::string &frames) {
  State &state = *state_;
  state.planes.resize(state.bytes);
  std::byte *to = state.planes.data();
  for (std::size_t i = 0; i < state.parts.size(); ++i) {
    split(state.parts[i], row.at(i), to);
    to += state.parts[i].bytes;
  }
  const std::size_t begin = frames.size();
  frames.resize(begin + ZSTD_compressBound(state.bytes));
  const std::size_t size = ZSTD_compressCCtx(ready(state.compressor, ZSTD_createCCtx), frames.data() + begin,
                                             frames.size() - begin, state.planes.data(), state.bytes, kLevel);
  if (ZSTD_isError(size)) throw Error(std::string("zstd: ") + ZSTD_getErrorName(size));
  frames.resize(begin + size);
}

void FrameCoder::check(std::string_view frame) const {
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN)
    throw FormatError("not a zstd frame that names its size");
  if (claimed != state_->bytes)
    throw FormatError("a zstd frame of " + std::to_string(claimed) + " bytes where a row has " +
                      std::to_string(state_->bytes));
  if (claimed / kMostExpansion > frame.size())
    throw FormatError("a zstd frame of " + std::to_string(frame.size()) + " bytes cannot hold the " +
                      std::to_string(claimed) + " that it claims");
}

void FrameCoder::decompress(std::string_view frame, const std::vector<std::byte *> &row) {
  check(frame);
  State &state = *state_;
  state.planes.resize(state.bytes);
  const std::size_t size = ZSTD_decompressDCtx(ready(state.decompressor, ZSTD_createDCtx),
                                               state.planes.data(), state.bytes, frame.data(), frame.size());
  if (ZSTD_isError(size)) throw FormatError(std::string("damaged zstd frame: ") + ZSTD_getErrorName(size));
  if (size != state.bytes)
    throw FormatError("a zstd frame with " + std::to_string(size) + " bytes where a row has " +
                      std::to_string(state.bytes));
  const std::byte *from = state.planes.data();
  for (std::size_t i = 0; i < state.parts.size(); ++i) {
    join(state.parts[i], from, row.at(i));
    from += state.parts[i].bytes;
  }
}

} // namespace tl::codec
