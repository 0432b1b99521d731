// Private to common/data: one decoder per family of formats, behind decode_picture().
#pragma once

#include "data/decode.h"

#include <cstddef>
#include <cstdint>

namespace tl::data {

struct Bytes {
  const std::uint8_t *data = nullptr;
  std::size_t size = 0;

  /// The part from `offset` on, at most `length` long; empty when `offset` is past the end.
  Bytes part(std::size_t offset, std::size_t length = SIZE_MAX) const {
    if (offset > size) return {};
    return {data + offset, length < size - offset ? length : size - offset};
  }
};

/// Refuses an empty picture and one of more than `rules.max_pixels`, before anything is allocated.
void check_size(std::int64_t width, std::int64_t height, const Preprocess &rules);

/// The orientation tag of a TIFF structure, which is also what EXIF is: 1 to 8; 1 when there is none or
/// it makes no sense.
int exif_orientation(Bytes tiff);

/// u8 {h, w, 3} as it is to be seen, given how it is stored.
Tensor turn_upright(const Tensor &pixels, int orientation);

Picture decode_jpeg(Bytes file, const Preprocess &rules);
Picture decode_png(Bytes file, const Preprocess &rules);
Picture decode_tiff(Bytes file, const Preprocess &rules);
Picture decode_bmp(Bytes file, const Preprocess &rules);
Picture decode_webp(Bytes file, const Preprocess &rules);
Picture decode_pnm(Bytes file, const Preprocess &rules);

} // namespace tl::data
