// One encoded record -> the model's input. Used by the loader's threads, and by the receiving side
// when the raw files cross the link.
#pragma once

#include "data/decode.h"
#include "data/preprocess.h"
#include "runtime/hash.h"
#include "runtime/tensor.h"

#include <cstdint>
#include <memory>
#include <string>

namespace tl::data {

/// A record as it is stored: the bytes of a picture file, or one row of a tensor file.
struct Encoded {
  Tensor content;       // is_file: u8 {bytes}; otherwise the row with its own type and shape
  bool is_file = false; // must be decoded
  Digest hash;          // of the content's bytes: the record's identity
};

/// Seconds spent, summed over calls.
struct PrepareTimes {
  double decode = 0;
  double resize = 0; // resize, crop, channels, mean and std
};

/// Not thread-safe: each thread has its own, which keeps its scratch memory between records.
class Preparer {
public:
  explicit Preparer(Preprocess preprocess);
  ~Preparer();
  Preparer(Preparer &&) noexcept;
  Preparer &operator=(Preparer &&) noexcept;

  /// Kind image: f32 {C, H, W}. Tensor: f32 of the row's shape. Tokens: i64 {T}.
  /// Throws DecodeError for a bad record.
  Tensor input(const Encoded &record);
  /// Kind image only: u8 {C, H, W} before scale, mean and std.
  Tensor pixels(const Encoded &record);

  /// Of the last record: see Picture::warning.
  const std::string &warning() const;
  const PrepareTimes &times() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Resize, crop and channels of u8 {H, W, 3} RGB pixels -> u8 {C, H, W}. Resizing follows Pillow's
/// definition (separable convolution, 8 bits between the two passes), which is what torchvision
/// 0.14 applies to pictures. Only the pixels inside the crop are computed.
Tensor transform_pixels(const Preprocess &preprocess, const Tensor &pixels);

} // namespace tl::data
