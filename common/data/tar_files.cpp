#include "data/tar_files.h"

#include "cli/error.h"
#include "cli/log.h"
#include "data/decode.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include <archive.h>
#include <archive_entry.h>

namespace tl::data {

namespace {

// More are opened anew for each read: a process has 1024 descriptors, usually.
constexpr std::size_t kKeptOpen = 256;
constexpr std::size_t kHead = kTarBlock;

/// What a file is that is no tar, from its first bytes.
FormatError no_tar(const std::string &name, const std::string &head) {
  const auto begins = [&](std::string_view magic) { return head.compare(0, magic.size(), magic) == 0; };
  if (head.empty()) return FormatError(name + ": is empty; even a tar of no files ends in blocks of zeros");
  for (const auto &[magic, kind] : {std::pair{"PK\x03\x04", "zip"}, {"7z\xBC\xAF", "7z"}, {"Rar!", "rar"}})
    if (begins(magic))
      return FormatError(name + ": is a " + kind + " archive; unpack it, or pack its files as tar");
  const std::string line = cli::printable(head.substr(0, std::min<std::size_t>(head.find('\n'), 40)));
  return FormatError(name + ": is no tar: it begins with '" + line + "'" +
                     (head.size() < kHead ? "" : ", not with the header of a member"));
}

/// Part of a tar as libarchive wants it.
struct Part {
  const RandomBytes *bytes;
  std::int64_t at, end;
  std::vector<char> block = std::vector<char>(std::size_t{1} << 16);
  std::exception_ptr failure = nullptr;

  static la_ssize_t give(archive *, void *self, const void **buffer) {
    auto *part = static_cast<Part *>(self);
    const auto size = std::min(static_cast<std::int64_t>(part->block.size()), part->end - part->at);
    try {
      part->bytes->read(part->at, part->block.data(), static_cast<std::size_t>(size));
    } catch (...) { // must not cross a library of C
      part->failure = std::current_exception();
      return -1;
    }
    part->at += size;
    *buffer = part->block.data();
    return size;
  }
};

DecodeError too_large(std::int64_t size) {
  return DecodeError(std::to_string(size) + " bytes is more than a picture may have");
}

/// A member whose holes were left out: libarchive knows the four ways to note where they are.
Tensor read_sparse(Part part) {
  const std::unique_ptr<archive, int (*)(archive *)> reader(archive_read_new(), archive_read_free);
  if (!reader) throw std::bad_alloc();
  archive_read_support_format_tar(reader.get());
  archive_entry *entry = nullptr;
  const auto check = [&](la_ssize_t code) {
    if (part.failure) std::rethrow_exception(part.failure);
    const char *why = archive_error_string(reader.get());
    if (code < ARCHIVE_WARN)
      throw DecodeError(std::string("stored with holes, damaged: ") + (why ? why : ""));
    return code;
  };
  check(archive_read_open(reader.get(), &part, nullptr, &Part::give, nullptr));
  if (check(archive_read_next_header(reader.get(), &entry)) == ARCHIVE_EOF)
    throw DecodeError("stored with holes, damaged");
  const std::int64_t size = archive_entry_size(entry);
  if (size <= 0) throw DecodeError("0 bytes");
  if (size > kMaxRecordBytes) throw too_large(size);
  Tensor bytes = Tensor::empty(DType::u8, {size});
  std::memset(bytes.data.get(), 0, bytes.bytes());
  for (std::size_t done = 0; done < bytes.bytes();) {
    const la_ssize_t n = archive_read_data(reader.get(), bytes.data.get() + done, bytes.bytes() - done);
    if (n < 0) check(ARCHIVE_FATAL);
    if (n == 0) throw DecodeError("stored with holes, and shorter than its header says");
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

} // namespace

TarInput tar_at(const std::string &path) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (path != "-" && !std::filesystem::exists(status))
    throw SystemError("open " + path, failed ? failed.value() : ENOENT);
  if (path != "-" && std::filesystem::is_regular_file(status)) return {path, path, {}};
  return {path == "-" ? "stdin" : path, "", [path] { return open_stream(path); }};
}

std::shared_ptr<const RandomBytes> TarFiles::open(const TarInput &input) {
  if (!input.file.empty()) {
    auto bytes = file_bytes(input.file, tars_.size() < kKeptOpen);
    std::string head(std::min<std::size_t>(kHead, static_cast<std::size_t>(bytes->size())), '\0');
    bytes->read(0, head.data(), head.size());
    if (begins_tar(head)) return bytes;
    if (packing(head).empty()) throw no_tar(input.name, head);
  }
  auto stream = std::make_unique<PeekedStream>(input.open ? input.open() : open_stream(input.file), kHead);
  if (!packing(stream->head()).empty())
    stream = std::make_unique<PeekedStream>(unpack(std::move(stream), input.name), kHead);
  if (!begins_tar(stream->head())) throw no_tar(input.name, stream->head());
  return spool_.add(*stream);
}

TarFiles::Tar TarFiles::add(const TarInput &input) {
  std::shared_ptr<const RandomBytes> bytes = open(input);
  Tar tar{input.name, index_tar(*bytes), static_cast<std::int64_t>(members_.size())};
  const auto number = static_cast<std::uint32_t>(tars_.size());
  for (const TarMember &member : tar.index.members)
    members_.push_back({number, member.sparse, member.header, member.data, member.size});
  tars_.push_back(std::move(bytes));
  return tar;
}

Tensor TarFiles::read(const std::string &, std::int64_t row) const {
  const Member &member = members_.at(static_cast<std::size_t>(row));
  const RandomBytes &tar = *tars_[member.tar];
  try {
    if (member.sparse) {
      const std::int64_t end =
          std::min(tar.size(), member.data + (member.size + kTarBlock - 1) / kTarBlock * kTarBlock);
      return read_sparse({&tar, member.header, end});
    }
    if (member.size == 0) throw DecodeError("0 bytes");
    if (member.size > kMaxRecordBytes) throw too_large(member.size);
    Tensor bytes = Tensor::empty(DType::u8, {member.size});
    tar.read(member.data, bytes.data.get(), bytes.bytes());
    return bytes;
  } catch (const SystemError &error) {
    throw DecodeError(std::string("cannot be read: ") + error.what());
  }
}

} // namespace tl::data
