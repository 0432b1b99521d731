#include "cli/io.h"

#include "cli/confine.h"
#include "cli/error.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <random>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tl::cli {

namespace fs = std::filesystem;

Descriptor::Descriptor(Descriptor &&other) noexcept : fd_(other.fd_), owned_(other.owned_) { other.fd_ = -1; }

Descriptor &Descriptor::operator=(Descriptor &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owned_, other.owned_);
  return *this;
}

Descriptor::~Descriptor() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

void Descriptor::close(const std::string &name) {
  const int fd = fd_;
  fd_ = -1;
  if (owned_ && fd >= 0 && ::close(fd) != 0) throw SystemError("close " + name, errno);
}

Descriptor open_input(const std::string &path) {
  if (path == "-") return Descriptor(STDIN_FILENO, false);
  if (!may_read(path)) throw Error(path + ": lies outside of the folder that this process is confined to");
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) throw SystemError("open " + path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) throw SystemError("stat " + path, errno);
  if (S_ISDIR(info.st_mode)) throw Error(path + ": is a folder; a file is needed here");
  return file;
}

namespace {
/// Looks up from a silent pipe now and then: a signal may arrive just before read(2) blocks, and another
/// thread may cancel this one.
void wait_readable(int fd) {
  struct pollfd waiting = {fd, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&waiting, 1, 200);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return; // read(2) reports what is wrong
    check_interrupt();
  }
}
} // namespace

std::size_t read_full(int fd, void *buffer, std::size_t size, const std::string &name) {
  auto *bytes = static_cast<char *>(buffer);
  std::size_t done = 0;
  while (done < size) {
    wait_readable(fd);
    const ssize_t n = ::read(fd, bytes + done, std::min<std::size_t>(size - done, 1U << 30));
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR) {
        check_interrupt();
        continue;
      }
      throw SystemError("read " + name, errno);
    }
    done += static_cast<std::size_t>(n);
  }
  return done;
}

namespace {
/// All but files may block for ever because nobody reads.
enum class Kind { file, socket, pipe }; // pipes, and terminals

Kind kind_of(int fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return Kind::file;
  return S_ISSOCK(info.st_mode) ? Kind::socket : Kind::pipe;
}

/// Looks up from a full pipe or socket now and then.
void wait_writable(int fd) {
  struct pollfd waiting = {fd, POLLOUT, 0};
  for (;;) {
    const int ready = ::poll(&waiting, 1, 200);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return; // write(2) reports what is wrong
    check_interrupt();
  }
}
} // namespace

void write_full(int fd, const void *buffer, std::size_t size, const std::string &name) {
  const auto *bytes = static_cast<const char *>(buffer);
  const Kind kind = kind_of(fd);
  const bool stalls = kind != Kind::file;
  // After a wait, a pipe takes PIPE_BUF bytes without blocking. A socket is told not to.
  const std::size_t most = kind == Kind::pipe ? PIPE_BUF : std::size_t{1} << 30;
  std::size_t done = 0;
  while (done < size) {
    if (stalls) wait_writable(fd);
    const std::size_t part = std::min(size - done, most);
    const ssize_t n = kind == Kind::socket ? ::send(fd, bytes + done, part, MSG_DONTWAIT | MSG_NOSIGNAL)
                                           : ::write(fd, bytes + done, part);
    if (n < 0) {
      if (errno == EAGAIN && stalls)
        continue; // a socket, or a pipe that another process made non-blocking: ssh does
      if (errno == EINTR) {
        check_interrupt();
        continue;
      }
      if (errno == EPIPE) throw ClosedPipe();
      throw SystemError("write " + name, errno);
    }
    done += static_cast<std::size_t>(n);
  }
}

std::string read_file(const std::string &path, std::size_t limit) {
  const Descriptor file = open_input(path);
  std::string text;
  char block[65536];
  for (;;) {
    const std::size_t n = read_full(file.get(), block, sizeof block, path);
    text.append(block, n);
    if (text.size() > limit)
      throw FormatError(path + ": larger than " + std::to_string(limit) +
                        " bytes, the most this kind of file may have");
    if (n < sizeof block) return text;
  }
}

namespace {

constexpr std::string_view kRandom = ".XXXXXX"; // behind a temporary's name

/// Puts letters in place of those X so that there is no such file, and creates it. It gets the rights that
/// the umask leaves; mkostemp() would leave it to the owner, and the umask cannot be read without changing
/// it, for all threads.
int create_temporary(std::string &name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr int kTries = 100;
  std::random_device random;
  for (int tries = 0; tries < kTries; ++tries) {
    for (std::size_t i = 1; i < kRandom.size(); ++i)
      name[name.size() - i] = kLetters[random() % kLetters.size()];
    const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

} // namespace

std::string target_of_temporary(const std::string &name) {
  if (name.size() < 2 + kRandom.size() || name[0] != '.' || name[name.size() - kRandom.size()] != '.')
    return "";
  return name.substr(1, name.size() - 1 - kRandom.size());
}

void remove_temporaries(const std::string &folder, const std::function<bool(const std::string &)> &ours) {
  std::error_code failed;
  for (fs::directory_iterator entries(folder, failed), end; !failed && entries != end;
       entries.increment(failed)) {
    const std::string target = target_of_temporary(entries->path().filename().string());
    if (!target.empty() && ours(target)) ::unlink(entries->path().c_str());
  }
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat info = {};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    // A device or a pipe is written to; a rename would put a file in its place (as root, over /dev/null).
    file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file_.valid()) throw SystemError("open " + path_, errno);
    return;
  }
  const fs::path target(path_);
  const fs::path folder = target.parent_path();
  std::error_code failed;
  if (!folder.empty()) fs::create_directories(folder, failed);
  if (failed) throw SystemError("create folder " + folder.string(), failed.value());
  if (fs::is_directory(target, failed)) throw Error(path_ + ": is a folder; give a file name");
  // Hidden, so that no reader of the folder takes it for a finished file.
  temporary_ = (folder / ("." + target.filename().string() + std::string(kRandom))).string();
  file_ = Descriptor(create_temporary(temporary_));
  if (!file_.valid()) throw SystemError("create " + path_, errno);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void *data, std::size_t size) { write_full(file_.get(), data, size, path_); }

void AtomicFile::commit() {
  if (temporary_.empty()) { // in place
    file_.close(path_);
    return;
  }
  if (fsync(file_.get()) != 0) throw SystemError("sync " + path_, errno);
  file_.close(path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw SystemError("rename to " + path_, errno);
  temporary_.clear();
  sync_folder(fs::path(path_).parent_path().string());
}

void sync_folder(const std::string &folder) {
  const std::string name = folder.empty() ? "." : folder;
  const Descriptor dir(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid()) throw SystemError("open folder " + name, errno);
  // Some file systems cannot sync a folder (EINVAL); the rename is as durable as it gets there.
  if (fsync(dir.get()) != 0 && errno != EINVAL) throw SystemError("sync folder " + name, errno);
}

void write_output(const std::string &path, const std::string &text) {
  if (path == "-") {
    write_full(STDOUT_FILENO, text.data(), text.size(), "stdout");
    return;
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

} // namespace tl::cli
