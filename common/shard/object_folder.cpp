// A shard folder in an object store.
#include "cli/log.h"
#include "object/store.h"
#include "shard/folder_files.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <unistd.h>

namespace tl::shard {

namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string command_of(const std::string &process) {
  std::ifstream file("/proc/" + process + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// The locks that this process holds.
class Held {
public:
  bool has(const std::string &lock) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return locks_.count(lock) != 0;
  }
  void add(const std::string &lock) {
    const std::lock_guard<std::mutex> guard(mutex_);
    locks_.insert(lock);
  }
  void remove(const std::string &lock) {
    const std::lock_guard<std::mutex> guard(mutex_);
    locks_.erase(lock);
  }

private:
  std::mutex mutex_;
  std::set<std::string> locks_;
} g_held;

/// "1234 on host" names a process of this machine that lives, is one of these programs, and holds `lock`.
bool alive(const std::string &owner, const std::string &lock) {
  const std::size_t space = owner.find(' ');
  const std::string process = owner.substr(0, space);
  if (space == std::string::npos || owner.substr(space) != " on " + host_name()) return false;
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(process.data(), process.data() + process.size(), pid);
  if (error != std::errc() || end != process.data() + process.size() || pid <= 0) return false;
  if (pid == getpid()) return g_held.has(lock);
  return (::kill(pid, 0) == 0 || errno == EPERM) && command_of(process) == command_of("self");
}

class ObjectFolder final : public FolderFiles {
public:
  explicit ObjectFolder(object::Url url)
      : prefix_(object::as_folder(url.key)), store_(object::open_store(url)) {}

  std::string path(const std::string &name) const override { return store_->name(prefix_ + name); }
  bool distant() const override { return true; }

  std::map<std::int64_t, std::uint64_t> shards() const override {
    std::map<std::int64_t, std::uint64_t> sizes;
    for (const object::ObjectInfo &object : store_->list(prefix_, "/").objects) {
      const std::int64_t number = shard_number(std::string_view(object.key).substr(prefix_.size()));
      if (number >= 0) sizes[number] = object.size;
    }
    return sizes;
  }

  std::vector<std::string> names(const std::string &prefix) const override {
    std::vector<std::string> found;
    for (const object::ObjectInfo &object : store_->list(prefix_ + prefix, "/").objects)
      found.push_back(object.key.substr(prefix_.size()));
    return found;
  }

  std::optional<Block> read(const std::string &name) const override {
    try {
      const object::Content content = store_->get(prefix_ + name);
      return Block{content.data, content.size};
    } catch (const object::ObjectError &error) {
      if (error.kind() == object::ObjectError::Kind::missing) return std::nullopt;
      throw;
    }
  }

  std::uint64_t write(const std::string &name, bool fresh,
                      const std::function<std::uint64_t(const ByteSink &)> &content) override {
    std::string bytes;
    content(string_sink(bytes));
    store_->put(prefix_ + name, bytes, fresh);
    return bytes.size();
  }

  void remove(const std::string &name) override { store_->remove(prefix_ + name); }

  std::string unfinished_writer() const override { return writer(kLockName); }

  /// Whose process is in the lock of that name; "" when there is none.
  std::string writer(const std::string &lock) const {
    const std::optional<Block> block = read(lock);
    return block ? std::string(reinterpret_cast<const char *>(block->data.get()), block->size) : "";
  }

  std::unique_ptr<WriterLock> lock() override;
  std::unique_ptr<WriterLock> lock_part(const Partition &part) override;

private:
  std::string prefix_;
  std::shared_ptr<const object::ObjectStore> store_;
};

/// The object says who writes; it is there from started() until finished().
class ObjectLock final : public WriterLock {
public:
  /// `others`: of those who may not write beside this one.
  ObjectLock(ObjectFolder &folder, std::string name, const std::vector<std::string> &others)
      : folder_(folder), name_(std::move(name)), predecessor_(folder.writer(name_)) {
    refuse(name_, predecessor_);
    for (const std::string &other : others) refuse(other, folder.writer(other));
  }
  ~ObjectLock() override { g_held.remove(folder_.path(name_)); }
  const std::string &predecessor() const override { return predecessor_; }
  void started() override {
    g_held.add(folder_.path(name_));
    folder_.write(name_, false, [](const ByteSink &sink) {
      const std::string owner = std::to_string(getpid()) + " on " + host_name();
      sink(owner.data(), owner.size());
      return owner.size();
    });
  }
  void finished() override { folder_.remove(name_); }

private:
  void refuse(const std::string &lock, const std::string &owner) const {
    if (alive(owner, folder_.path(lock)))
      throw Error(folder_.path("") + ": process " + cli::printable(owner) +
                  " is writing here; wait for it, or give another folder");
  }

  ObjectFolder &folder_;
  std::string name_;
  std::string predecessor_;
};

std::unique_ptr<WriterLock> ObjectFolder::lock() {
  return std::make_unique<ObjectLock>(*this, kLockName, names(std::string(kLockName) + "-"));
}

std::unique_ptr<WriterLock> ObjectFolder::lock_part(const Partition &part) {
  std::vector<std::string> others{kLockName};
  for (const std::string &name : names(std::string(kLockName) + "-"))
    if (const std::optional<Partition> other = part_of_lock(name); other && other->count != part.count)
      others.push_back(name);
  return std::make_unique<ObjectLock>(*this, part_lock_name(part), others);
}

} // namespace

std::shared_ptr<FolderFiles> open_object_folder(const std::string &url) {
  return std::make_shared<ObjectFolder>(object::parse_url(url));
}

} // namespace tl::shard
