#include "shard/folder_files.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "object/url.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

namespace tl::shard {

namespace fs = std::filesystem;

namespace {
constexpr std::string_view kPrefix = "shard-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kPartIndex = "index-";
constexpr std::string_view kPartLock = ".lock-";

std::optional<Partition> part_between(std::string_view name, std::string_view prefix,
                                      std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || name.substr(0, prefix.size()) != prefix ||
      name.substr(name.size() - suffix.size()) != suffix)
    return std::nullopt;
  return partition_from_name(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
}

template <class Visit> void for_each_name(const std::string &folder, const Visit &visit) {
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed))
    visit(entries->path().filename().string());
  if (failed) throw SystemError("read folder " + folder, failed.value());
}

std::string pid_in(int fd) {
  char text[24] = {};
  const ssize_t got = pread(fd, text, sizeof text - 1, 0);
  std::string pid(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid;
}

/// What writers left half-written, which may have been of any part, or of `part` only.
void remove_leftovers(const std::string &folder, const std::optional<Partition> &part = {}) {
  cli::remove_temporaries(folder, [&](const std::string &target) {
    const std::int64_t number = shard_number(target);
    const std::optional<Partition> owner = part_of_index(target);
    return part ? owner == part || (number >= 0 && number % part->count == part->index - 1)
                : owner || number >= 0 || target == kIndexName;
  });
}

/// True if nobody could hold the lock of that name alone.
bool is_held(const std::string &path) {
  const cli::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

[[noreturn]] void refuse_writer(const std::string &folder, const std::string &pid) {
  throw Error(folder + ": " + (pid.empty() ? "another process" : "process " + cli::printable(pid)) +
              " is writing here; wait for it, or give another folder");
}

/// A share in the lock of the whole, and the lock of a part.
class PartLock final : public WriterLock {
public:
  PartLock(const std::string &folder, const Partition &part)
      : whole_(share(folder)), part_(folder, part_lock_name(part)) {
    // Whoever comes second sees the first, since both have locked their own by now.
    for_each_name(folder, [&](const std::string &name) {
      const std::optional<Partition> other = part_of_lock(name);
      if (other && other->count != part.count && is_held((fs::path(folder) / name).string()))
        throw Error(folder + ": another process is writing part " + other->text() + " here, so part " +
                    part.text() + " must wait");
    });
  }
  const std::string &predecessor() const override { return part_.predecessor(); }
  void started() override { part_.started(); }
  void finished() override { part_.finished(); }

private:
  static cli::Descriptor share(const std::string &folder) {
    const std::string path = (fs::path(folder) / kLockName).string();
    cli::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.valid()) throw SystemError("open " + path, errno);
    if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) return file;
    if (errno != EWOULDBLOCK) throw SystemError("lock " + path, errno);
    refuse_writer(folder, pid_in(file.get()));
  }

  cli::Descriptor whole_;
  FolderLock part_;
};

class LocalFolder final : public FolderFiles {
public:
  explicit LocalFolder(fs::path folder) : folder_(std::move(folder)) {}

  std::string path(const std::string &name) const override {
    return (name.empty() ? folder_ : folder_ / name).string();
  }
  bool distant() const override { return false; }

  std::map<std::int64_t, std::uint64_t> shards() const override {
    std::map<std::int64_t, std::uint64_t> sizes;
    for (const auto &[number, file] : list_shards(path(""))) {
      std::error_code failed;
      sizes[number] = fs::file_size(file, failed);
      if (failed) throw SystemError("stat " + file, failed.value());
    }
    return sizes;
  }

  std::optional<Block> read(const std::string &name) const override {
    if (::access(path(name).c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
    return map_file(path(name));
  }

  std::uint64_t write(const std::string &name, bool,
                      const std::function<std::uint64_t(const ByteSink &)> &content) override {
    cli::AtomicFile file(path(name));
    const std::uint64_t bytes = content([&](const void *data, std::size_t size) { file.write(data, size); });
    file.commit();
    return bytes;
  }

  void remove(const std::string &name) override { remove_file(path(name)); }

  std::string unfinished_writer() const override {
    const cli::Descriptor file(::open(path(kLockName).c_str(), O_RDONLY | O_CLOEXEC));
    return file.valid() ? pid_in(file.get()) : "";
  }

  std::vector<std::string> names(const std::string &prefix) const override {
    std::vector<std::string> found;
    for_each_name(path(""), [&](const std::string &name) {
      if (name.compare(0, prefix.size(), prefix) == 0) found.push_back(name);
    });
    return found;
  }

  std::unique_ptr<WriterLock> lock() override {
    make_folder();
    auto lock = std::make_unique<FolderLock>(path(""));
    remove_leftovers(path(""));
    return lock;
  }

  std::unique_ptr<WriterLock> lock_part(const Partition &part) override {
    make_folder();
    auto lock = std::make_unique<PartLock>(path(""), part);
    remove_leftovers(path(""), part);
    return lock;
  }

private:
  void make_folder() const {
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) throw SystemError("create folder " + path(""), failed.value());
  }

  fs::path folder_;
};

} // namespace

std::shared_ptr<FolderFiles> open_folder(const std::string &folder) {
  if (object::is_url(folder)) return open_object_folder(folder);
  return std::make_shared<LocalFolder>(folder);
}

std::int64_t shard_number(std::string_view name) {
  if (name.size() <= kPrefix.size() + kSuffix.size() || name.substr(0, kPrefix.size()) != kPrefix ||
      name.substr(name.size() - kSuffix.size()) != kSuffix)
    return -1;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool good = error == std::errc() && end == name.data() + name.size() && name.size() <= 12;
  return good ? number : -1;
}

std::string part_index_name(const Partition &part) {
  return std::string(kPartIndex) + part.name() + std::string(kSuffix);
}
std::string part_lock_name(const Partition &part) { return std::string(kPartLock) + part.name(); }
std::optional<Partition> part_of_index(std::string_view name) {
  return part_between(name, kPartIndex, kSuffix);
}
std::optional<Partition> part_of_lock(std::string_view name) { return part_between(name, kPartLock, ""); }

std::string shard_name(std::int64_t number) {
  char name[48];
  std::snprintf(name, sizeof name, "shard-%06lld.safetensors", static_cast<long long>(number));
  return name;
}

std::map<std::int64_t, std::string> list_shards(const std::string &folder) {
  std::map<std::int64_t, std::string> shards;
  for_each_name(folder, [&](const std::string &name) {
    const std::int64_t number = shard_number(name);
    if (number >= 0) shards[number] = (fs::path(folder) / name).string();
  });
  return shards;
}

void remove_file(const std::string &path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw SystemError("remove " + path, errno);
}

FolderLock::FolderLock(const std::string &folder, const std::string &name)
    : path_((fs::path(folder) / name).string()) {
  file_ = cli::Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file_.valid()) throw SystemError("open " + path_, errno);
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw SystemError("lock " + path_, errno);
    refuse_writer(folder, pid_in(file_.get()));
  }
  predecessor_ = pid_in(file_.get());
  store(std::to_string(getpid()));
}

FolderLock::~FolderLock() {
  if (touched_) return;
  try {
    store(predecessor_);
  } catch (...) { // the file keeps our pid: a reader will ask for another run, which is safe
  }
}

void FolderLock::store(const std::string &pid) {
  if (ftruncate(file_.get(), 0) != 0) throw SystemError("write " + path_, errno);
  if (!pid.empty() && pwrite(file_.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    throw SystemError("write " + path_, errno);
  if (fsync(file_.get()) != 0) throw SystemError("sync " + path_, errno);
}

void FolderLock::finished() {
  store("");
  touched_ = true;
}

} // namespace tl::shard
