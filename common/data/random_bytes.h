// Private to common/data: bytes that several threads read at any place at once.
#pragma once

#include "cli/io.h"
#include "data/byte_stream.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tl::data {

class RandomBytes {
public:
  virtual ~RandomBytes() = default;
  virtual std::int64_t size() const = 0;
  /// Exactly `size` bytes from `offset` on. Thread-safe. Throws SystemError, or Error when the bytes are
  /// not those any more that they were.
  virtual void read(std::int64_t offset, void *buffer, std::size_t size) const = 0;
};

/// A regular file. Without `keep_open` it is opened for each read, so that there can be more files than
/// descriptors; a file that was replaced in between is an error.
std::shared_ptr<const RandomBytes> file_bytes(const std::string &path, bool keep_open);

/// A temporary file, in TMPDIR or /tmp, that no name leads to: it goes away with the process, however that
/// ends. Holds what can be read only once.
class Spool {
public:
  /// Throws SystemError, for a full disk too.
  std::shared_ptr<const RandomBytes> add(ByteStream &stream);

private:
  std::shared_ptr<const cli::Descriptor> file_;
  std::string name_; // in messages
  std::int64_t end_ = 0;
};

} // namespace tl::data
