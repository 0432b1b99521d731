#include "cli/confine.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tl::cli {

namespace fs = std::filesystem;

namespace {

std::string g_root; // empty: not confined

bool is_below(const fs::path &path, const fs::path &root) {
  auto at = path.begin();
  for (const fs::path &part : root) {
    if (part.empty()) continue; // after a final slash
    if (at == path.end() || *at++ != part) return false;
  }
  return true;
}

constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kChange =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG;
// All that the first version of Landlock knows.
constexpr std::uint64_t kHandled = (std::uint64_t{LANDLOCK_ACCESS_FS_MAKE_SYM} << 1) - 1;

void allow(int rules, const std::string &path, std::uint64_t access) {
  const Descriptor opened(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!opened.valid()) return; // nothing there to be read
  struct stat info = {};
  if (fstat(opened.get(), &info) != 0) throw SystemError("stat " + path, errno);
  struct landlock_path_beneath_attr beneath = {};
  beneath.allowed_access =
      S_ISDIR(info.st_mode) ? access : access & ~std::uint64_t{LANDLOCK_ACCESS_FS_READ_DIR};
  beneath.parent_fd = opened.get();
  if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0)
    throw SystemError("confine to " + path, errno);
}

} // namespace

std::string path_below(const std::string &root, const std::string &path) {
  std::error_code failed;
  const fs::path top = fs::canonical(root, failed);
  if (failed) throw SystemError("open " + root, failed.value());
  const fs::path real = fs::canonical(top / path, failed); // an absolute path stays as it is
  // What is elsewhere is not even told to exist.
  if (failed || !is_below(real, top))
    throw Error(printable(path) + ": is not there, or not below " + root + ", where all files must be");
  return real.string();
}

bool may_read(const std::string &path) {
  if (g_root.empty()) return true;
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  return failed || is_below(real, g_root); // what is not there cannot be opened
}

void confine(const std::string &root, const std::string &writable) {
  std::error_code failed;
  g_root = fs::canonical(root, failed).string();
  if (failed) throw SystemError("open " + root, failed.value());
  struct landlock_ruleset_attr handled = {};
  handled.handled_access_fs = kHandled;
  const Descriptor rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0)));
  if (!rules.valid() && (errno == ENOSYS || errno == EOPNOTSUPP)) return; // this kernel has none
  if (!rules.valid()) throw SystemError("confine to " + root, errno);
  allow(rules.get(), g_root, kRead);
  allow(rules.get(), writable, kRead | kChange);
  for (const char *system :
       {"/proc/self", "/proc/cpuinfo", "/sys/devices/system", "/sys/fs/cgroup", "/dev/urandom"})
    allow(rules.get(), system, kRead);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0)
    throw SystemError("confine to " + root, errno);
}

} // namespace tl::cli
