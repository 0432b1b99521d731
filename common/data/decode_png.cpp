// PNG through libpng: reasons in words, nothing on stderr, 16 bits scaled instead of cut.
#include "data/formats.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include <png.h>

namespace tl::data {

namespace {

/// As in decode_jpeg.cpp: the methods that call libpng are left by longjmp on an error, so they
/// hold no object with a destructor.
class PngReader {
public:
  explicit PngReader(Bytes file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &PngReader::on_error,
                                  [](png_structp, png_const_charp) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) throw std::bad_alloc();
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader &) = delete;
  PngReader &operator=(const PngReader &) = delete;

  bool read_header() {
    if (setjmp(jump_)) return false;
    png_set_read_fn(png_, this, &PngReader::on_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX); // check_size() is the limit
    png_read_info(png_, info_);
    return true;
  }

  /// Sets up RGB, 8 bits, no alpha. No gamma correction: values as they are stored.
  bool start() {
    if (setjmp(jump_)) return false;
    png_set_scale_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return png_get_channels(png_, info_) == 3 && png_get_bit_depth(png_, info_) == 8;
  }

  bool read_rows(std::uint8_t **rows) {
    if (setjmp(jump_)) return false;
    png_read_image(png_, rows);
    png_read_end(png_, info_);
    return true;
  }

  int orientation() {
    png_bytep exif = nullptr;
    png_uint_32 size = 0;
    if (setjmp(jump_) || !png_get_eXIf_1(png_, info_, &size, &exif)) return 1;
    return exif_orientation({exif, size});
  }

  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::int64_t height() const { return png_get_image_height(png_, info_); }
  const char *reason() const { return reason_; }

private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto &reader = *static_cast<PngReader *>(png_get_error_ptr(png));
    std::snprintf(reader.reason_, sizeof reader.reason_, "%s", message);
    std::longjmp(reader.jump_, 1);
  }

  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    auto &reader = *static_cast<PngReader *>(png_get_io_ptr(png));
    if (count > reader.file_.size - reader.position_) png_error(png, "ends early");
    std::memcpy(to, reader.file_.data + reader.position_, count);
    reader.position_ += count;
  }

  Bytes file_;
  std::size_t position_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_ = {};
  char reason_[160] = "not a kind of PNG that can be made RGB";
};

[[noreturn]] void fail(const PngReader &reader) {
  throw DecodeError(std::string("damaged PNG: ") + reader.reason());
}

} // namespace

Picture decode_png(Bytes file, const Preprocess &rules) {
  PngReader reader(file);
  if (!reader.read_header()) fail(reader);
  check_size(reader.width(), reader.height(), rules);
  if (!reader.start()) fail(reader);
  const std::int64_t width = reader.width(), height = reader.height();
  Picture picture;
  picture.pixels = Tensor::empty(DType::u8, {height, width, 3});
  std::vector<std::uint8_t *> rows(static_cast<std::size_t>(height));
  for (std::int64_t y = 0; y < height; ++y)
    rows[static_cast<std::size_t>(y)] = picture.pixels.as<std::uint8_t>() + y * width * 3;
  if (!reader.read_rows(rows.data())) fail(reader);
  if (rules.exif == ExifRule::apply) picture.pixels = turn_upright(picture.pixels, reader.orientation());
  return picture;
}

} // namespace tl::data
