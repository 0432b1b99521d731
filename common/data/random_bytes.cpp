#include "data/random_bytes.h"

#include "cli/error.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace tl::data {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

void read_at(int fd, std::int64_t offset, void *buffer, std::size_t size, const std::string &name) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n =
        ::pread(fd, static_cast<char *>(buffer) + done, std::min(size - done, std::size_t{1} << 30),
                offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno != EINTR) throw SystemError("read " + name, errno);
    if (n < 0) check_interrupt();
    if (n == 0) throw Error(name + ": became shorter while it was read");
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

class FileBytes final : public RandomBytes {
public:
  FileBytes(std::string path, bool keep_open) : path_(std::move(path)), file_(cli::open_input(path_)) {
    if (::fstat(file_.get(), &info_) != 0) throw SystemError("stat " + path_, errno);
    if (!keep_open) file_ = cli::Descriptor();
  }

  std::int64_t size() const override { return info_.st_size; }

  void read(std::int64_t offset, void *buffer, std::size_t size) const override {
    if (file_.valid()) return read_at(file_.get(), offset, buffer, size, path_);
    const cli::Descriptor file = cli::open_input(path_);
    struct stat now = {};
    if (::fstat(file.get(), &now) != 0) throw SystemError("stat " + path_, errno);
    if (now.st_dev != info_.st_dev || now.st_ino != info_.st_ino || now.st_size != info_.st_size ||
        now.st_mtim.tv_sec != info_.st_mtim.tv_sec || now.st_mtim.tv_nsec != info_.st_mtim.tv_nsec)
      throw Error(path_ + ": was changed or replaced while it was in use; start again");
    read_at(file.get(), offset, buffer, size, path_);
  }

private:
  std::string path_;
  cli::Descriptor file_;
  struct stat info_ = {};
};

class SpooledBytes final : public RandomBytes {
public:
  SpooledBytes(std::shared_ptr<const cli::Descriptor> file, std::string name, std::int64_t begin,
               std::int64_t size)
      : file_(std::move(file)), name_(std::move(name)), begin_(begin), size_(size) {}
  std::int64_t size() const override { return size_; }
  void read(std::int64_t offset, void *buffer, std::size_t size) const override {
    read_at(file_->get(), begin_ + offset, buffer, size, name_);
  }

private:
  std::shared_ptr<const cli::Descriptor> file_;
  std::string name_;
  std::int64_t begin_, size_;
};

cli::Descriptor unnamed_file(const std::string &folder, const std::string &name) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) { // not every file system can
    std::string path = folder + "/tl-spool-XXXXXX";
    fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(path.c_str());
  }
  if (fd < 0) throw SystemError("create a " + name, errno);
  return cli::Descriptor(fd);
}

} // namespace

std::shared_ptr<const RandomBytes> file_bytes(const std::string &path, bool keep_open) {
  return std::make_shared<FileBytes>(path, keep_open);
}

std::shared_ptr<const RandomBytes> Spool::add(ByteStream &stream) {
  if (!file_) {
    const char *chosen = std::getenv("TMPDIR");
    const std::string folder = chosen && *chosen ? chosen : "/tmp";
    name_ = "temporary file in " + folder + " (TMPDIR chooses another folder)";
    file_ = std::make_shared<const cli::Descriptor>(unnamed_file(folder, name_));
  }
  const std::int64_t begin = end_;
  std::vector<char> block(kBlock);
  for (;;) {
    check_interrupt();
    const std::size_t n = stream.read(block.data(), block.size());
    if (n == 0) break;
    cli::write_full(file_->get(), block.data(), n, name_);
    end_ += static_cast<std::int64_t>(n);
  }
  return std::make_shared<SpooledBytes>(file_, name_, begin, end_ - begin);
}

} // namespace tl::data
