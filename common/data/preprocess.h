// How an encoded picture or a tensor row becomes the model's input. The same object is on the
// command line, in the plan, in the trained model and in the feature hash, so that extraction and
// serving cannot differ.
#pragma once

#include "runtime/hash.h"
#include "runtime/tensor.h"
#include "json/document.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::data {

enum class InputKind {
  image,  // an encoded picture, or a row of 8-bit pixels (HxW, CxHxW or HxWxC with C 1 or 3)
  tensor, // a row of numbers, passed on as f32
  tokens, // a row of token ids, passed on as i64
};
enum class Interpolation { nearest, bilinear, bicubic };
enum class ExifRule {
  ignore, // pixels as stored: what Pillow and torchvision show a model
  apply,  // turned upright by the orientation tag
};

/// Steps in order: orient, resize, centre crop, channels, scale, (x - mean) / std.
struct Preprocess {
  InputKind kind = InputKind::image;
  /// {}: as it is. {N}: the shorter side becomes N, the longer int(N * long / short).
  /// {H, W}: exactly that.
  std::vector<std::int64_t> resize;
  Interpolation interpolation = Interpolation::bilinear;
  /// Widen the filter when shrinking, as Pillow always does. False: a fixed number of taps.
  bool antialias = true;
  /// {} or {H, W}: the middle; a smaller picture is padded with black, as torchvision does.
  std::vector<std::int64_t> crop;
  /// 1 or 3. Colour becomes grey by the weights of ITU-R 601, grey becomes three equal channels.
  std::int64_t channels = 3;
  /// 8-bit values are divided by 255.
  bool scale = true;
  /// Both empty, or `channels` values each (kind tensor: one value, or one per first dimension).
  std::vector<double> mean, std;
  ExifRule exif = ExifRule::ignore;
  /// A picture that declares more is refused before it is decoded. Changes no value.
  std::int64_t max_pixels = 100'000'000;

  /// Hash of everything that can change a value, and of the version of this code's rules.
  Digest digest() const;
  /// CxHxW when the picture's own size does not matter (crop or exact resize), else {}.
  Shape input_shape() const;
  /// One line for people: "shorter side 256 (bilinear), crop 224x224, RGB, mean ...".
  std::string summary() const;
  /// Throws UsageError naming the field that makes no sense.
  void check() const;
};

bool operator==(const Preprocess &a, const Preprocess &b);

/// Every field, always: {"kind","resize","interpolation","antialias","crop","channels","scale",
/// "mean","std","exif","max_pixels"}.
json::Value to_json(const Preprocess &preprocess);
/// Fields left out keep their defaults. Throws FormatError "origin: preprocess: ...".
Preprocess preprocess_from_json(const json::Value &value, const std::string &origin);

/// Names of the presets: "imagenet" (resize 256, crop 224), "imagenet-232" (resize 232, crop 224),
/// "raw" (RGB scaled to [0,1]), "tensor", "tokens".
std::vector<std::string> preset_names();

/// What --preprocess takes: a preset; a file with the JSON above; or comma-separated settings,
/// optionally after a preset: "imagenet,resize=225,crop=225", "resize=32x32,channels=1,mean=0.5,std=0.5".
/// Per-channel values are joined by '/': mean=0.485/0.456/0.406. Throws UsageError.
Preprocess parse_preprocess(const std::string &text);

/// u8 pixels [.., C, H, W] -> f32 of the same shape: scale, mean, std. Shipping pixels and calling
/// this later gives the same bits as preprocessing in one go. Throws FormatError on another dtype
/// or number of channels.
Tensor normalise(const Preprocess &preprocess, const Tensor &pixels);

} // namespace tl::data
