// Small pictures made by code, sound and otherwise.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <jpeglib.h>

#include <png.h>

namespace tl::test {

/// Interleaved 8-bit samples.
struct Raster {
  int width = 0, height = 0, channels = 3;
  std::vector<std::uint8_t> data;

  Raster(int w, int h, int c, const std::function<int(int x, int y, int c)> &value)
      : width(w), height(h), channels(c) {
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x)
        for (int k = 0; k < c; ++k) data.push_back(static_cast<std::uint8_t>(value(x, y, k)));
  }
  std::uint8_t at(int x, int y, int c) const {
    return data[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

inline Raster gradient(int width, int height) {
  return Raster(width, height, 3, [&](int x, int y, int c) {
    return c == 0 ? x * 255 / width : c == 1 ? y * 255 / height : (x + y) * 255 / (width + height);
  });
}

struct JpegOptions {
  int quality = 95;
  bool progressive = false;
  bool one_scan_each = false; // sequential, a scan for each component
  int restart_rows = 0;
  J_COLOR_SPACE input = JCS_RGB; // of the raster
  J_COLOR_SPACE stored = JCS_YCbCr;
  bool adobe = true;   // marker, for CMYK and YCCK
  int orientation = 0; // EXIF tag; 0: none
};

inline std::string exif_block(int orientation) {
  // Little-endian TIFF with one SHORT entry, tag 274.
  std::string tiff("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18);
  tiff += static_cast<char>(orientation);
  return tiff + std::string(7, '\0');
}

inline std::string encode_jpeg(const Raster &raster, const JpegOptions &options = {}) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(raster.width);
  info.image_height = static_cast<JDIMENSION>(raster.height);
  info.input_components = raster.channels;
  info.in_color_space = options.input;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, options.stored);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (!options.adobe) info.write_Adobe_marker = FALSE;
  info.restart_in_rows = options.restart_rows;
  std::vector<jpeg_scan_info> scans;
  if (options.progressive) jpeg_simple_progression(&info);
  if (options.one_scan_each) {
    for (int c = 0; c < info.num_components; ++c) {
      jpeg_scan_info scan = {};
      scan.comps_in_scan = 1;
      scan.component_index[0] = c;
      scan.Se = 63;
      scans.push_back(scan);
    }
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  if (options.orientation) {
    const std::string exif = std::string("Exif\0\0", 6) + exif_block(options.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET *>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  for (int y = 0; y < raster.height; ++y) {
    auto *row =
        const_cast<JSAMPROW>(&raster.data[static_cast<std::size_t>(y * raster.width * raster.channels)]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<char *>(buffer), size);
  std::free(buffer);
  return bytes;
}

struct PngOptions {
  int depth = 8;
  int colour = PNG_COLOR_TYPE_RGB;
  std::vector<png_color> palette;
  std::vector<png_byte> transparency;
  int orientation = 0; // eXIf chunk
  bool interlaced = false;
};

/// `row(y)` gives the bytes of a row as PNG stores them (big-endian 16 bits, packed bits).
inline std::string encode_png(int width, int height, const PngOptions &options,
                              const std::function<std::vector<std::uint8_t>(int y)> &row) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string bytes;
  png_set_write_fn(
      png, &bytes,
      [](png_structp p, png_bytep data, std::size_t n) {
        static_cast<std::string *>(png_get_io_ptr(p))->append(reinterpret_cast<char *>(data), n);
      },
      nullptr);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_compression_level(png, 9);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), options.depth,
               options.colour, options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
  if (!options.palette.empty())
    png_set_PLTE(png, info, options.palette.data(), static_cast<int>(options.palette.size()));
  if (!options.transparency.empty())
    png_set_tRNS(png, info, options.transparency.data(), static_cast<int>(options.transparency.size()),
                 nullptr);
  std::string exif = exif_block(options.orientation);
  if (options.orientation)
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()),
                   reinterpret_cast<png_bytep>(exif.data()));
  png_write_info(png, info);
  const int passes = options.interlaced ? png_set_interlace_handling(png) : 1;
  for (int pass = 0; pass < passes; ++pass)
    for (int y = 0; y < height; ++y) {
      const std::vector<std::uint8_t> samples = row(y);
      png_write_row(png, samples.data());
    }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

inline std::string encode_png(const Raster &raster) {
  static const int kColours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
  PngOptions options;
  options.colour = kColours[raster.channels];
  const int stride = raster.width * raster.channels;
  return encode_png(raster.width, raster.height, options, [&](int y) {
    return std::vector<std::uint8_t>(raster.data.begin() + y * stride,
                                     raster.data.begin() + (y + 1) * stride);
  });
}

} // namespace tl::test
