// JPEG through libjpeg, in one pass: pixels, and whether they are all there. OpenCV's imread fills
// what is missing with grey and says nothing to its caller.
#include "data/formats.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>

namespace tl::data {

namespace {

// Encoders write about ten; each of many scans over a large picture costs seconds.
constexpr int kMaxScans = 128;

/// libjpeg reports errors by calling back and expects not to be returned to: setjmp is its way
/// out. So the methods that call libjpeg hold no object with a destructor, and return false.
class JpegReader {
public:
  explicit JpegReader(Bytes file) : file_(file) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = &JpegReader::on_error;
    errors_.emit_message = &JpegReader::on_message;
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
  }
  ~JpegReader() {
    if (created_) jpeg_destroy_decompress(&info_);
  }
  JpegReader(const JpegReader &) = delete;
  JpegReader &operator=(const JpegReader &) = delete;

  bool read_header(bool want_exif) {
    if (setjmp(jump_)) return false;
    jpeg_create_decompress(&info_);
    created_ = true;
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.fill_input_buffer = &JpegReader::on_end;
    source_.skip_input_data = &JpegReader::on_skip;
    source_.next_input_byte = file_.data;
    source_.bytes_in_buffer = file_.size;
    info_.src = &source_;
    if (want_exif) jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  /// Everything up to the pixels. A file of several scans is read to its end first.
  bool start(J_COLOR_SPACE colours) {
    if (setjmp(jump_)) return false;
    info_.out_color_space = colours;
    info_.buffered_image = jpeg_has_multiple_scans(&info_);
    note_components();
    jpeg_start_decompress(&info_);
    if (!info_.buffered_image) return true;
    int scans = 1;
    for (int state = 0; state != JPEG_REACHED_EOI;) {
      state = jpeg_consume_input(&info_);
      if (state != JPEG_REACHED_SOS) continue;
      note_components();
      if (++scans > kMaxScans) return refuse("more scans than any encoder writes");
    }
    if (!complete()) return refuse("ends before its last scan");
    jpeg_start_output(&info_, info_.input_scan_number);
    return true;
  }

  bool read_row(std::uint8_t *row) {
    if (setjmp(jump_)) return false;
    return jpeg_read_scanlines(&info_, &row, 1) == 1 || refuse("ends early");
  }

  bool finish() {
    if (setjmp(jump_)) return false;
    if (info_.buffered_image) jpeg_finish_output(&info_);
    jpeg_finish_decompress(&info_);
    return true;
  }

  const jpeg_decompress_struct &info() const { return info_; }
  bool ran_out() const { return ran_out_; }
  const char *reason() const { return reason_; }
  const char *warning() const { return warning_; }

private:
  static JpegReader &self(j_common_ptr info) { return *static_cast<JpegReader *>(info->client_data); }

  bool refuse(const char *reason) {
    std::snprintf(reason_, sizeof reason_, "%s", reason);
    return false;
  }

  void note_components() {
    for (int i = 0; i < info_.comps_in_scan; ++i)
      seen_ |= 1U << std::min(info_.cur_comp_info[i]->component_index, 31);
  }

  /// Are all components there, and, in a file without an end marker, every bit of them?
  bool complete() const {
    for (int c = 0; c < info_.num_components; ++c) {
      if (!(seen_ & 1U << c)) return false;
      if (!info_.progressive_mode) continue;
      for (int k = 0; k < (ran_out_ ? DCTSIZE2 : 1); ++k)
        if (ran_out_ ? info_.coef_bits[c][k] != 0 : info_.coef_bits[c][k] < 0) return false;
    }
    // Sequential scans may be cut anywhere in the last one; only the end marker says where it ends.
    return info_.progressive_mode || !ran_out_;
  }

  /// Bytes that stand before the next marker and carry nothing, as some cameras write.
  bool padding(int count) const {
    const std::uint8_t *end = source_.next_input_byte;
    const auto available = static_cast<std::size_t>(end - file_.data);
    if (ran_out_ || count < 0 || static_cast<std::size_t>(count) > available) return false;
    // The pointer stands at the marker's second byte or just behind it: look at what is before.
    const std::uint8_t *begin = end - std::min<std::size_t>(available, static_cast<std::size_t>(count) + 2);
    return std::all_of(begin, end - 2, [](std::uint8_t b) { return b == 0 || b == 0xFF; });
  }

  [[noreturn]] static void on_error(j_common_ptr info) {
    JpegReader &reader = self(info);
    char text[JMSG_LENGTH_MAX];
    (*info->err->format_message)(info, text);
    std::snprintf(reader.reason_, sizeof reader.reason_, "%s", text);
    std::longjmp(reader.jump_, 1);
  }

  static void on_message(j_common_ptr info, int level) {
    if (level >= 0) return; // a trace message
    JpegReader &reader = self(info);
    const int code = info->err->msg_code;
    const bool in_data = reader.info_.input_scan_number > 0;
    bool harmless = code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_BOGUS_ICC;
    if (code == JWRN_EXTRANEOUS_DATA) harmless = !in_data || reader.padding(info->err->msg_parm.i[0]);
    if (!harmless) on_error(info);
    (*info->err->format_message)(info, reader.warning_);
  }

  static boolean on_end(j_decompress_ptr info) {
    static const JOCTET kEnd[2] = {0xFF, JPEG_EOI};
    self(reinterpret_cast<j_common_ptr>(info)).ran_out_ = true;
    info->src->next_input_byte = kEnd;
    info->src->bytes_in_buffer = 2;
    return TRUE;
  }

  static void on_skip(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer) {
      on_end(info);
      return;
    }
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
  }

  Bytes file_;
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_source_mgr source_ = {};
  std::jmp_buf jump_ = {};
  bool created_ = false;
  bool ran_out_ = false;
  unsigned seen_ = 0;
  char reason_[JMSG_LENGTH_MAX] = "";
  char warning_[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void fail(const JpegReader &reader) {
  throw DecodeError(std::string("damaged JPEG: ") + (reader.ran_out() ? "ends early" : reader.reason()));
}

/// Adobe's inks are stored inverted: 255 is no ink.
void inks_to_rgb(const std::uint8_t *cmyk, std::int64_t width, std::uint8_t *rgb) {
  for (std::int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>((cmyk[c] * cmyk[3] + 127) / 255);
}

int orientation_of(const jpeg_decompress_struct &info) {
  for (auto *marker = info.marker_list; marker; marker = marker->next)
    if (marker->marker == JPEG_APP0 + 1 && marker->data_length > 6 && !std::memcmp(marker->data, "Exif\0", 6))
      return exif_orientation({marker->data + 6, marker->data_length - 6});
  return 1;
}

} // namespace

Picture decode_jpeg(Bytes file, const Preprocess &rules) {
  JpegReader reader(file);
  if (!reader.read_header(rules.exif == ExifRule::apply)) fail(reader);
  const auto &info = reader.info();
  check_size(info.image_width, info.image_height, rules);
  const J_COLOR_SPACE stored = info.jpeg_color_space;
  const bool inks = stored == JCS_CMYK || stored == JCS_YCCK;
  if (inks && !info.saw_Adobe_marker)
    throw DecodeError(
        "CMYK without an Adobe marker: whether its inks are inverted is not known; convert it to RGB");
  if (!inks && stored != JCS_GRAYSCALE && stored != JCS_YCbCr && stored != JCS_RGB)
    throw DecodeError("a JPEG of " + std::to_string(info.num_components) +
                      " components in an unknown colour space; convert it to RGB");
  if (!reader.start(inks ? JCS_CMYK : JCS_RGB)) fail(reader);

  const std::int64_t width = info.output_width, height = info.output_height;
  Picture picture;
  picture.pixels = Tensor::empty(DType::u8, {height, width, 3});
  auto *rows = picture.pixels.as<std::uint8_t>();
  std::vector<std::uint8_t> row(inks ? static_cast<std::size_t>(width) * 4 : 0);
  for (std::int64_t y = 0; y < height; ++y) {
    std::uint8_t *out = rows + y * width * 3;
    if (!reader.read_row(inks ? row.data() : out)) fail(reader);
    if (inks) inks_to_rgb(row.data(), width, out);
  }
  const int orientation = orientation_of(info); // finishing forgets the markers
  if (!reader.finish()) fail(reader);
  picture.warning = reader.ran_out() ? "JPEG without its end marker" : reader.warning();
  if (rules.exif == ExifRule::apply) picture.pixels = turn_upright(picture.pixels, orientation);
  return picture;
}

} // namespace tl::data
