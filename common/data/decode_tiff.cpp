// TIFF through libtiff: it stops at the first damaged strip and says why. (OpenCV reads on and
// leaves the rest black.) The first page counts; further ones are thumbnails or are not asked for.
#include "data/formats.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <tiffio.h>

namespace tl::data {

namespace {

struct Source {
  Bytes file;
  std::size_t at = 0;
  char reason[200] = "";
};

Source &source_of(thandle_t handle) { return *static_cast<Source *>(handle); }

tmsize_t read_part(thandle_t handle, void *to, tmsize_t size) {
  Source &source = source_of(handle);
  const Bytes part = source.file.part(source.at, static_cast<std::size_t>(std::max<tmsize_t>(size, 0)));
  if (part.size) std::memcpy(to, part.data, part.size);
  source.at += part.size;
  return static_cast<tmsize_t>(part.size);
}

toff_t seek(thandle_t handle, toff_t offset, int whence) {
  Source &source = source_of(handle);
  source.at = offset + (whence == SEEK_CUR ? source.at : whence == SEEK_END ? source.file.size : 0);
  return source.at;
}

__attribute__((format(printf, 4, 0))) int keep_error(TIFF *, void *user, const char *, const char *format,
                                                     std::va_list arguments) {
  Source &source = *static_cast<Source *>(user);
  if (!source.reason[0]) std::vsnprintf(source.reason, sizeof source.reason, format, arguments);
  return 1; // handled: nothing on stderr
}

int no_warning(TIFF *, void *, const char *, const char *, std::va_list) { return 1; }

using Handle = std::unique_ptr<TIFF, decltype(&TIFFClose)>;

Handle open(Source &source, std::int64_t max_pixels) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                 &TIFFOpenOptionsFree);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &keep_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &no_warning, nullptr);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(max_pixels * 8 + (1 << 20)));
  return Handle(
      TIFFClientOpenExt(
          "the file", "rm", &source, &read_part, [](thandle_t, void *, tmsize_t) -> tmsize_t { return 0; },
          &seek, [](thandle_t) { return 0; },
          [](thandle_t handle) { return static_cast<toff_t>(source_of(handle).file.size); },
          [](thandle_t, void **, toff_t *) { return 0; }, [](thandle_t, void *, toff_t) {}, options.get()),
      &TIFFClose);
}

[[noreturn]] void fail(const Source &source, const char *otherwise) {
  throw DecodeError(std::string("damaged TIFF: ") + (source.reason[0] ? source.reason : otherwise));
}

std::uint16_t number(TIFF *tiff, std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, tag, &value);
  return value;
}

} // namespace

Picture decode_tiff(Bytes file, const Preprocess &rules) {
  Source source{file};
  const Handle tiff = open(source, rules.max_pixels);
  if (!tiff) fail(source, "no page");
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  check_size(width, height, rules);
  const int bits = number(tiff.get(), TIFFTAG_BITSPERSAMPLE),
            samples = number(tiff.get(), TIFFTAG_SAMPLESPERPIXEL);
  if (bits > 16 || number(tiff.get(), TIFFTAG_SAMPLEFORMAT) != SAMPLEFORMAT_UINT)
    throw DecodeError("TIFF of " + std::to_string(bits) +
                      "-bit or signed samples is not supported; convert it to PNG");
  std::uint16_t extra = 0;
  std::uint16_t *kinds = nullptr;
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra, &kinds);
  if (extra > 0 || samples > 4)
    throw DecodeError("TIFF with alpha or further channels is not supported; convert it to RGB");

  TIFFRGBAImage image;
  char refusal[1024] = "";
  if (!TIFFRGBAImageBegin(&image, tiff.get(), 1, refusal))
    throw DecodeError(std::string("TIFF of an unsupported kind: ") + refusal);
  const std::unique_ptr<TIFFRGBAImage, decltype(&TIFFRGBAImageEnd)> closer(&image, &TIFFRGBAImageEnd);
  image.req_orientation = image.orientation; // rows as they are stored
  std::vector<std::uint32_t> raster(std::size_t{width} * height);
  if (!TIFFRGBAImageGet(&image, raster.data(), width, height) || source.reason[0]) fail(source, "ends early");

  Picture picture;
  picture.pixels = Tensor::empty(DType::u8, {height, width, 3});
  auto *to = picture.pixels.as<std::uint8_t>();
  for (const std::uint32_t pixel : raster) {
    *to++ = TIFFGetR(pixel);
    *to++ = TIFFGetG(pixel);
    *to++ = TIFFGetB(pixel);
  }
  if (rules.exif == ExifRule::apply) picture.pixels = turn_upright(picture.pixels, exif_orientation(file));
  return picture;
}

} // namespace tl::data
