// Private to common/data: tars opened for reading any member at any time, by several threads.
#pragma once

#include "data/file_reader.h"
#include "data/random_bytes.h"
#include "data/tar_index.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tl::data {

/// Where a tar comes from. `file` is a regular file; when it is empty, `open` gives the bytes, once.
struct TarInput {
  std::string name; // in messages
  std::string file;
  std::function<std::unique_ptr<ByteStream>()> open;
};

/// Of a path: a file, a pipe, or "-" for stdin. Throws SystemError when nothing is there.
TarInput tar_at(const std::string &path);

/// A tar on disk is read where it is. One that is packed or comes through a pipe goes to a temporary file.
class TarFiles final : public FileReader {
public:
  struct Tar {
    std::string name;
    TarIndex index;
    std::int64_t first_row = 0; // member i is row first_row + i
  };

  /// Throws FormatError "name: ..." for what is no tar; damage inside one is in its index.
  Tar add(const TarInput &input);

  Tensor read(const std::string &id, std::int64_t row) const override;

private:
  struct Member {
    std::uint32_t tar;
    bool sparse;
    std::int64_t header, data, size;
  };
  std::shared_ptr<const RandomBytes> open(const TarInput &input);

  std::vector<std::shared_ptr<const RandomBytes>> tars_;
  std::vector<Member> members_; // of all of them
  Spool spool_;
};

} // namespace tl::data
