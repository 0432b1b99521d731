#include "runtime/file_state.h"

#include <algorithm>
#include <chrono>
#include <sys/stat.h>

namespace tl {

namespace {
constexpr std::int64_t kSecond = 1'000'000'000;
std::int64_t nanoseconds(const timespec &time) { return time.tv_sec * kSecond + time.tv_nsec; }
} // namespace

std::optional<FileState> file_state(const std::string &path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return FileState{info.st_size, nanoseconds(info.st_mtim), nanoseconds(info.st_ctim),
                   static_cast<std::int64_t>(info.st_ino)};
}

bool settled(const FileState &state, std::int64_t now) {
  return std::max(state.modified_ns, state.changed_ns) < now - 2 * kSecond;
}

std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

} // namespace tl
