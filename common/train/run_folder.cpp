#include "train/run_folder.h"

#include "cli/error.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace tl::train {

namespace fs = std::filesystem;

RunFolder::RunFolder(std::string path, Mode mode) : path_(std::move(path)) {
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed) throw SystemError("create folder " + path_, failed.value());
  if (!fs::is_directory(path_, failed)) throw Error(path_ + ": is not a folder");
  lock();
  tidy();
  const bool used = fs::exists(checkpoint(), failed) || fs::exists(model(), failed);
  if (used && mode == Mode::fresh)
    throw Error(path_ + ": holds an earlier run; --resume continues it, --force replaces it");
  if (mode != Mode::replace) return;
  // The checkpoint last: a kill in between leaves a folder that still says what it is.
  for (const std::string &file : {model(), metrics(), checkpoint()})
    if (!fs::remove(file, failed) && failed) throw SystemError("remove " + file, failed.value());
}

std::string RunFolder::inside(const char *name) const { return (fs::path(path_) / name).string(); }

void RunFolder::lock() {
  const std::string name = inside(".lock");
  const int fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw SystemError("open " + name, errno);
  lock_ = cli::Descriptor(fd);
  char holder[32] = "";
  // The kernel frees the lock when its holder dies, however it dies.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw SystemError("lock " + name, errno);
    const ssize_t n = ::read(fd, holder, sizeof holder - 1);
    throw Error(path_ + ": process " + std::string(holder, n > 0 ? static_cast<std::size_t>(n) : 0) +
                " is training in it; wait for it, or choose another folder");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd, 0) != 0) throw SystemError("write " + name, errno);
  cli::write_full(fd, pid.data(), pid.size(), name);
}

void RunFolder::tidy() const {
  cli::remove_temporaries(path_, [this](const std::string &target) {
    const std::string file = inside(target.c_str());
    return file == checkpoint() || file == metrics() || file == model() || file == unproved_model();
  });
  // Nobody but the holder of this folder's lock writes there.
  cli::remove_temporaries(features(), [](const std::string &) { return true; });
  std::error_code ignored;
  fs::remove(unproved_model(), ignored);
}

} // namespace tl::train
