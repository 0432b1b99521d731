// Private to common/data: where the encoded files of a listing are read from.
#pragma once

#include "runtime/file_state.h"
#include "runtime/tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tl::data {

/// No record may be larger; checked before anything is allocated.
constexpr std::int64_t kMaxRecordBytes = std::int64_t{1} << 30;

class FileReader {
public:
  virtual ~FileReader() = default;
  /// The bytes of a record as u8 {size}, size at least 1. `row` is the record's entry in Listing::rows;
  /// -1 when the listing has none. Thread-safe. Throws DecodeError for a record that cannot be used
  /// (missing, unreadable, 0 bytes, too large), another Error when it is the process that cannot go on.
  virtual Tensor read(const std::string &id, std::int64_t row) const = 0;
  /// Of a record that is a file of its own; nothing for others.
  virtual std::optional<FileState> state(const std::string &) const { return std::nullopt; }
  /// Reads that are worth having on their way at once, because each mostly waits.
  virtual std::size_t reads_in_flight() const { return 1; }
};

/// Of a folder on a file system; ids are paths below `root`.
std::shared_ptr<const FileReader> files_below(const std::string &root);

} // namespace tl::data
