// What the system says of a file, to tell whether it is still the one that was read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tl {

struct FileState {
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0; // since 1970, as are the others
  std::int64_t changed_ns = 0;  // of its contents, name or rights: unlike `modified_ns`, no program sets it
  std::int64_t inode = 0;

  friend bool operator==(const FileState &a, const FileState &b) {
    return a.bytes == b.bytes && a.modified_ns == b.modified_ns && a.changed_ns == b.changed_ns &&
           a.inode == b.inode;
  }
  friend bool operator!=(const FileState &a, const FileState &b) { return !(a == b); }
};

/// Nothing when there is no such regular file, or when it cannot be looked at. Follows links.
std::optional<FileState> file_state(const std::string &path);

/// False for a file that changed less than two seconds before `now_ns`, or after it: another change may leave
/// the same state, because file systems count time in steps (git calls this racy).
bool settled(const FileState &state, std::int64_t now_ns);

/// Of the clock that file systems use.
std::int64_t now_ns();

} // namespace tl
