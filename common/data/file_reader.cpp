#include "data/file_reader.h"

#include "cli/confine.h"
#include "cli/error.h"
#include "cli/io.h"
#include "data/decode.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

namespace tl::data {

namespace {

/// What is wrong with one file, against what is wrong with this process or machine.
bool concerns_the_file(int error) {
  static const int kOfFile[] = {ENOENT, ENOTDIR,      EACCES, EPERM, EIO,
                                ELOOP,  ENAMETOOLONG, ESTALE, ENXIO, EINVAL};
  return std::find(std::begin(kOfFile), std::end(kOfFile), error) != std::end(kOfFile);
}

[[noreturn]] void cannot_read(const std::string &path, int error) {
  if (concerns_the_file(error)) throw DecodeError(std::string("cannot be read: ") + std::strerror(error));
  throw SystemError("read " + path, error);
}

Tensor read_record_file(const std::string &path) {
  if (!cli::may_read(path)) throw DecodeError("lies outside of the folder that this process is confined to");
  // O_NONBLOCK: opening a named pipe must not wait for a writer. It changes nothing for files.
  const cli::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) cannot_read(path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) cannot_read(path, errno);
  if (!S_ISREG(info.st_mode)) throw DecodeError("not a regular file");
  if (info.st_size == 0) throw DecodeError("0 bytes");
  if (info.st_size > kMaxRecordBytes)
    throw DecodeError(std::to_string(info.st_size) + " bytes is more than a picture may have");
  Tensor bytes = Tensor::empty(DType::u8, {info.st_size});
  std::size_t done = 0;
  try {
    done = cli::read_full(file.get(), bytes.data.get(), bytes.bytes(), path);
  } catch (const SystemError &error) {
    throw DecodeError(std::string("cannot be read: ") + error.what());
  }
  if (done < bytes.bytes()) throw DecodeError("became shorter while it was read");
  return bytes;
}

class FolderReader final : public FileReader {
public:
  explicit FolderReader(std::filesystem::path root) : root_(std::move(root)) {}
  Tensor read(const std::string &id, std::int64_t) const override {
    return read_record_file((root_ / id).string());
  }
  std::optional<FileState> state(const std::string &id) const override {
    const std::string path = (root_ / id).string();
    return cli::may_read(path) ? file_state(path) : std::nullopt;
  }

private:
  std::filesystem::path root_;
};

} // namespace

std::shared_ptr<const FileReader> files_below(const std::string &root) {
  return std::make_shared<FolderReader>(root);
}

} // namespace tl::data
