// The names of a shard folder's files, and its lock.
#pragma once

#include "cli/io.h"

#include <cstdint>
#include <map>
#include <string>

namespace tl::shard {

std::string shard_path(const std::string &folder, std::int64_t number);
std::string index_path(const std::string &folder);

/// The shard files by number. Throws SystemError if the folder cannot be read.
std::map<std::int64_t, std::string> list_shards(const std::string &folder);

/// Removes what writers that died left half-written. Only for the holder of the lock.
void remove_leftovers(const std::string &folder);

/// Removes a file; that it is not there is no error.
void remove_file(const std::string &path);

/// The pid of a writer that has not finished, as its lock file tells it; "" when there is none.
std::string unfinished_writer(const std::string &folder);

/// Exclusive use of a folder by one writer; the system frees it when the process ends in any way.
class FolderLock {
public:
  /// Throws Error naming the process that holds it.
  explicit FolderLock(const std::string &folder);
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  /// Leaves the lock file as it was found, unless started() or finished().
  ~FolderLock();
  /// The pid that an earlier writer left because it never finished; "" when none did.
  const std::string &predecessor() const { return predecessor_; }
  /// From now on the folder is unfinished until finished().
  void started() { touched_ = true; }
  /// The work is whole: clears the pid, so that readers know.
  void finished();

private:
  void store(const std::string &pid);

  std::string path_;
  bool touched_ = false;
  cli::Descriptor file_;
  std::string predecessor_;
};

} // namespace tl::shard
