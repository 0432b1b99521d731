#include "data/byte_stream.h"

#include "cli/error.h"
#include "cli/io.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

namespace tl::data {

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

class DescriptorStream final : public ByteStream {
public:
  explicit DescriptorStream(const std::string &path)
      : name_(path == "-" ? "stdin" : path), file_(cli::open_input(path)) {}
  std::size_t read(void *buffer, std::size_t size) override {
    return cli::read_full(file_.get(), buffer, size, name_);
  }

private:
  std::string name_;
  cli::Descriptor file_;
};

/// By zlib, because libarchive does not check the checksum of gzip.
class GzipStream final : public ByteStream {
public:
  GzipStream(std::unique_ptr<ByteStream> packed, std::string name)
      : packed_(std::move(packed)), name_(std::move(name)), input_(kChunk) {
    if (inflateInit2(&inflate_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&inflate_); }

  std::size_t read(void *buffer, std::size_t size) override {
    inflate_.next_out = static_cast<Bytef *>(buffer);
    inflate_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1U << 30));
    const uInt wanted = inflate_.avail_out;
    while (inflate_.avail_out == wanted) {
      check_interrupt();
      const bool more = fill();
      if (ended_ && !next_member(more)) break;
      if (!more) throw FormatError(name_ + ": its gzip data end early");
      const int code = inflate(&inflate_, Z_NO_FLUSH);
      ended_ = code == Z_STREAM_END;
      if (code != Z_OK && !ended_)
        throw FormatError(name_ + ": damaged gzip data: " + (inflate_.msg ? inflate_.msg : "no progress"));
    }
    return wanted - inflate_.avail_out;
  }

private:
  /// False when no byte is left.
  bool fill() {
    if (inflate_.avail_in > 0) return true;
    inflate_.next_in = input_.data();
    inflate_.avail_in = static_cast<uInt>(packed_->read(input_.data(), input_.size()));
    return inflate_.avail_in > 0;
  }

  /// After the end of one: several may be joined, and zeros may pad the last.
  bool next_member(bool more) {
    for (; more && *inflate_.next_in == 0; more = fill()) {
      padded_ = true;
      ++inflate_.next_in;
      --inflate_.avail_in;
    }
    if (!more) return false;
    if (padded_ || *inflate_.next_in != 0x1F)
      throw FormatError(name_ + ": what follows its gzip data is no gzip data");
    inflateReset(&inflate_);
    ended_ = false;
    return true;
  }

  std::unique_ptr<ByteStream> packed_;
  std::string name_;
  std::vector<Bytef> input_;
  z_stream inflate_ = {};
  bool ended_ = false;
  bool padded_ = false;
};

/// Every other packing, by libarchive.
class FilterStream final : public ByteStream {
public:
  FilterStream(std::unique_ptr<ByteStream> packed, std::string name)
      : packed_(std::move(packed)), name_(std::move(name)), input_(kChunk), archive_(archive_read_new()) {
    if (!archive_) throw std::bad_alloc();
    archive_read_support_filter_xz(archive_.get());
    archive_read_support_filter_lzip(archive_.get());
    archive_read_support_filter_bzip2(archive_.get());
    archive_read_support_filter_zstd(archive_.get());
    archive_read_support_filter_lz4(archive_.get());
    archive_read_support_format_raw(archive_.get());
    archive_entry *entry = nullptr;
    check(archive_read_open(archive_.get(), this, nullptr, &FilterStream::give, nullptr));
    empty_ = check(archive_read_next_header(archive_.get(), &entry)) == ARCHIVE_EOF;
  }

  std::size_t read(void *buffer, std::size_t size) override {
    check_interrupt();
    return empty_ ? 0 : static_cast<std::size_t>(check(archive_read_data(archive_.get(), buffer, size)));
  }

private:
  static la_ssize_t give(archive *, void *self, const void **buffer) {
    auto *stream = static_cast<FilterStream *>(self);
    *buffer = stream->input_.data();
    try {
      return static_cast<la_ssize_t>(stream->packed_->read(stream->input_.data(), stream->input_.size()));
    } catch (...) { // must not cross a library of C
      stream->failure_ = std::current_exception();
      return -1;
    }
  }

  la_ssize_t check(la_ssize_t code) {
    if (failure_) std::rethrow_exception(failure_);
    const char *why = archive_error_string(archive_.get());
    if (code < 0) throw FormatError(name_ + ": cannot be unpacked: " + (why ? why : "damaged data"));
    return code;
  }

  struct Free {
    void operator()(archive *a) const { archive_read_free(a); }
  };
  std::unique_ptr<ByteStream> packed_;
  std::string name_;
  std::vector<char> input_;
  std::unique_ptr<archive, Free> archive_;
  std::exception_ptr failure_;
  bool empty_ = false;
};

} // namespace

std::unique_ptr<ByteStream> open_stream(const std::string &path) {
  return std::make_unique<DescriptorStream>(path);
}

PeekedStream::PeekedStream(std::unique_ptr<ByteStream> inner, std::size_t size)
    : inner_(std::move(inner)), head_(size, '\0') {
  std::size_t done = 0;
  while (done < size) {
    const std::size_t n = inner_->read(head_.data() + done, size - done);
    if (n == 0) break;
    done += n;
  }
  head_.resize(done);
}

std::size_t PeekedStream::read(void *buffer, std::size_t size) {
  if (given_ == head_.size()) return inner_->read(buffer, size);
  const std::size_t n = std::min(size, head_.size() - given_);
  std::memcpy(buffer, head_.data() + given_, n);
  given_ += n;
  return n;
}

std::string packing(std::string_view head) {
  static const std::pair<std::string_view, const char *> kMagic[] = {
      {"\x1F\x8B\x08", "gzip"},     {{"\xFD\x37zXZ\0", 6}, "xz"}, {"BZh", "bzip2"},
      {"\x28\xB5\x2F\xFD", "zstd"}, {"\x04\x22\x4D\x18", "lz4"},  {"LZIP", "lzip"}};
  for (const auto &[magic, name] : kMagic)
    if (head.substr(0, magic.size()) == magic) return name;
  return "";
}

std::unique_ptr<ByteStream> unpack(std::unique_ptr<ByteStream> packed, const std::string &name) {
  auto stream = std::make_unique<PeekedStream>(std::move(packed), 8);
  if (packing(stream->head()) == "gzip") return std::make_unique<GzipStream>(std::move(stream), name);
  return std::make_unique<FilterStream>(std::move(stream), name);
}

} // namespace tl::data
