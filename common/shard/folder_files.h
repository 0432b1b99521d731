// The files of a shard folder and its lock, on a file system or in an object store.
#pragma once

#include "cli/io.h"
#include "shard/partition.h"
#include "shard/safetensors.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::shard {

std::string shard_name(std::int64_t number); // "shard-000012.safetensors"
inline constexpr const char *kIndexName = "index.safetensors";
inline constexpr const char *kLockName = ".lock";
/// Of the writer of a part: "index-2-of-4.safetensors", ".lock-2-of-4".
std::string part_index_name(const Partition &part);
std::string part_lock_name(const Partition &part);
/// The part whose index, or whose lock, has that name.
std::optional<Partition> part_of_index(std::string_view name);
std::optional<Partition> part_of_lock(std::string_view name);

/// By one writer.
class WriterLock {
public:
  virtual ~WriterLock() = default;
  /// The process that an earlier writer was, when it never finished: "1234"; "" when none.
  virtual const std::string &predecessor() const = 0;
  /// From now on the folder is unfinished until finished().
  virtual void started() = 0;
  /// The work is whole, and readers may know.
  virtual void finished() = 0;
};

class FolderFiles {
public:
  virtual ~FolderFiles() = default;
  /// For messages: the folder, or a file in it.
  virtual std::string path(const std::string &name = "") const = 0;
  /// True where reading takes long, so that nothing should be read that is not needed.
  virtual bool distant() const = 0;

  /// The shards' numbers and bytes. Throws SystemError, or as ObjectStore does.
  virtual std::map<std::int64_t, std::uint64_t> shards() const = 0;
  /// Of all that begin with `prefix`.
  virtual std::vector<std::string> names(const std::string &prefix) const = 0;
  /// Nothing when there is no such file.
  virtual std::optional<Block> read(const std::string &name) const = 0;
  /// A file that appears whole or not at all. A `fresh` one must not be there yet.
  virtual std::uint64_t write(const std::string &name, bool fresh,
                              const std::function<std::uint64_t(const ByteSink &)> &content) = 0;
  /// That it is not there is no error.
  virtual void remove(const std::string &name) = 0;

  /// The process of a writer that has not finished; "" when there is none.
  virtual std::string unfinished_writer() const = 0;
  /// Makes the folder where needed, and removes what writers that died left half-written. Throws Error
  /// naming the process that holds the lock.
  virtual std::unique_ptr<WriterLock> lock() = 0;
  /// The same for the writer of a part, beside whom those of the other parts may write, but no writer of the
  /// whole, and none of a part when there are more or fewer of them.
  virtual std::unique_ptr<WriterLock> lock_part(const Partition &part) = 0;
};

/// `folder`: a path, or a URL of an object store.
std::shared_ptr<FolderFiles> open_folder(const std::string &folder);
/// In an object store: objects below the URL's key. The lock there keeps out writers of this machine; a
/// writer of another machine fails when it first writes a shard of a number that is taken, or when the store
/// knows no conditional writes, perhaps not at all.
std::shared_ptr<FolderFiles> open_object_folder(const std::string &url);

/// The paths of the shard files of a folder on a file system, by number.
std::map<std::int64_t, std::string> list_shards(const std::string &folder);
/// The number in a shard's name, or -1 for any other name.
std::int64_t shard_number(std::string_view name);

/// Removes a file; that it is not there is no error.
void remove_file(const std::string &path);

/// Exclusive use of a folder by one writer; the system frees it when the process ends in any way.
class FolderLock : public WriterLock {
public:
  /// Throws Error naming the process that holds it. `name`: of the lock's file.
  explicit FolderLock(const std::string &folder, const std::string &name = kLockName);
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  /// Leaves the lock file as it was found, unless started() or finished().
  ~FolderLock() override;
  const std::string &predecessor() const override { return predecessor_; }
  void started() override { touched_ = true; }
  void finished() override;

private:
  void store(const std::string &pid);

  std::string path_;
  bool touched_ = false;
  cli::Descriptor file_;
  std::string predecessor_;
};

} // namespace tl::shard
