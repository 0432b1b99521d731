// Encoded bytes -> pixels, never through a damaged file. The content decides the format, not the
// name. JPEG, PNG (8 and 16 bit), BMP, WebP (still), TIFF (first page) and PNM are read.
#pragma once

#include "cli/error.h"
#include "data/preprocess.h"
#include "runtime/tensor.h"

#include <cstddef>
#include <string>

namespace tl::data {

/// This record cannot be used. what() says why in words, without the record's name: "damaged JPEG:
/// ends early", "0 bytes", "looks like XML, not a picture", "20000x20000 is over --max-pixels ...".
class DecodeError : public FormatError {
public:
  using FormatError::FormatError;
};

struct Picture {
  Tensor pixels;       // u8, {height, width, 3}, RGB
  std::string warning; // why the file is not quite right although its pixels are all there; or ""
};

/// Decodes with `exif` and `max_pixels` of the preprocessing; the size is read from the header and
/// checked before anything is allocated. Alpha is dropped, 16-bit samples are scaled to 8 bits.
/// Throws DecodeError, never anything of the decoding libraries'.
Picture decode_picture(const void *bytes, std::size_t size, const Preprocess &rules);

} // namespace tl::data
