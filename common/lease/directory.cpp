#include "lease/directory.h"

#include "cli/app.h"
#include "cli/error.h"
#include "lease/document.h"
#include "json/document.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tl::lease {

namespace fs = std::filesystem;

namespace {

constexpr const char *kSystemFolder = "/run/tl-tools";
constexpr const char *kLock = "lock";
constexpr const char *kBudget = "budget";
constexpr std::size_t kLeaseBytes = 1024, kMaxLeaseBytes = 65536, kMaxBudgetBytes = 100;

/// "000000000017-4242.lease" -> 17.
bool parse_name(const std::string &name, std::uint64_t &number) {
  const std::size_t dash = name.find('-');
  if (dash == std::string::npos || name.size() < 6 || name.substr(name.size() - 6) != ".lease") return false;
  const auto [end, error] = std::from_chars(name.data(), name.data() + dash, number);
  return error == std::errc() && end == name.data() + dash;
}

std::string lease_name(const Entry &entry) {
  char text[64];
  std::snprintf(text, sizeof text, "%012llu-%lld.lease", static_cast<unsigned long long>(entry.number),
                static_cast<long long>(entry.pid));
  return text;
}

/// Whatever the umask: the jobs of other users must be able to look.
cli::Descriptor create(const std::string &path, int flags) {
  cli::Descriptor file(::open(path.c_str(), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid()) throw SystemError("open " + path, errno);
  fchmod(file.get(), 0644); // fails for a file of another user, which then is as it should be
  return file;
}

/// At most so many bytes: no lease and no budget has more.
std::string read_start(int fd, const std::string &name, std::size_t most) {
  std::string text(most, '\0');
  text.resize(cli::read_full(fd, text.data(), most, name));
  return text;
}

bool writable_folder(const std::string &folder) {
  std::error_code failed;
  return fs::is_directory(folder, failed) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

} // namespace

std::string default_folder() {
  if (writable_folder(kSystemFolder) || ::geteuid() == 0) return kSystemFolder;
  const char *const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && writable_folder(runtime)) return std::string(runtime) + "/tl-tools";
  throw UsageError(std::string(kSystemFolder) +
                   " cannot be written to and XDG_RUNTIME_DIR is not set; say with --lease-dir DIR where "
                   "the jobs of this host meet");
}

Directory::Directory(std::string folder) : folder_(std::move(folder)) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw SystemError("create folder " + folder_, failed.value());
  lock_ = create(path(kLock), O_RDONLY);
  changes_ = cli::Descriptor(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  // A process that dies closes its lease, which was open for writing. Without inotify, wait() is slower.
  if (changes_.valid())
    inotify_add_watch(changes_.get(), folder_.c_str(),
                      IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE | IN_MOVED_TO | IN_ONLYDIR);
}

Directory::Turn::Turn(const Directory &directory) : fd_(directory.lock_.get()) {
  while (::flock(fd_, LOCK_EX) != 0) {
    if (errno != EINTR) throw SystemError("lock " + directory.path(kLock), errno);
    check_interrupt();
  }
}

Directory::Turn::~Turn() { ::flock(fd_, LOCK_UN); }

const Entry *Directory::parse(int fd, const std::string &name, std::uint64_t number) {
  std::string text = read_start(fd, name, kMaxLeaseBytes);
  if (text.empty()) return nullptr; // killed before it could say anything, and about to lose its lock
  Parsed &known = parsed_[number];
  if (known.text != text) {
    known.entry = entry_from_json(json::parse(text, name), name);
    known.entry.number = number;
    known.text = std::move(text);
  }
  return &known.entry;
}

std::vector<Entry> Directory::read() {
  std::vector<Entry> entries;
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end; it.increment(failed)) {
    std::uint64_t number = 0;
    if (!parse_name(it->path().filename().string(), number)) continue;
    const std::string name = it->path().string();
    const cli::Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.valid() && errno == ENOENT) continue;
    if (!file.valid()) throw SystemError("open " + name, errno);
    if (name != lease_path_ && ::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
      ::unlink(name.c_str()); // its job is dead; another user's stays, to no harm
      parsed_.erase(number);
      continue;
    }
    if (const Entry *entry = parse(file.get(), name, number)) entries.push_back(*entry);
  }
  if (failed) throw SystemError("read folder " + folder_, failed.value());
  std::sort(entries.begin(), entries.end(),
            [](const Entry &a, const Entry &b) { return a.number < b.number; });
  return entries;
}

std::int64_t Directory::budget() const {
  const std::string name = path(kBudget);
  const cli::Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid() && errno == ENOENT) return 0;
  if (!file.valid()) throw SystemError("open " + name, errno);
  std::string text = read_start(file.get(), name, kMaxBudgetBytes);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (!cli::size_in_bytes()(text).empty() || text == "0")
    throw FormatError(name + ": '" + text + "' is no amount of memory; want one line such as 4G");
  return std::stoll(text);
}

void Directory::set_budget(std::int64_t bytes) {
  cli::AtomicFile file(path(kBudget));
  fchmod(file.descriptor(), 0644);
  file.write(std::to_string(bytes) + "\n");
  file.commit();
}

void Directory::join(Entry &self, const std::vector<Entry> &others) {
  self.number = others.empty() ? 1 : others.back().number + 1;
  lease_path_ = path(lease_name(self));
  lease_ = create(lease_path_, O_RDWR | O_EXCL);
  if (::flock(lease_.get(), LOCK_EX | LOCK_NB) != 0) throw SystemError("lock " + lease_path_, errno);
  write(self);
}

Entry Directory::adopt(cli::Descriptor lease) {
  const std::string link = "/proc/self/fd/" + std::to_string(lease.get());
  std::error_code failed;
  const fs::path file = fs::read_symlink(link, failed);
  std::uint64_t number = 0;
  const bool ours = !failed && parse_name(file.filename().string(), number) &&
                    fs::equivalent(file.parent_path(), folder_, failed) && !failed;
  const Entry *entry =
      ours && ::lseek(lease.get(), 0, SEEK_SET) == 0 ? parse(lease.get(), file, number) : nullptr;
  if (!entry) throw Error(folder_ + ": the lease of this job was removed by somebody");
  if (::fcntl(lease.get(), F_SETFD, FD_CLOEXEC) != 0) throw SystemError("keep " + file.string(), errno);
  lease_path_ = path(file.filename().string());
  lease_ = std::move(lease);
  return *entry;
}

int Directory::inherit() const {
  if (::fcntl(lease_.get(), F_SETFD, 0) != 0) throw SystemError("pass on " + lease_path_, errno);
  return lease_.get();
}

void Directory::write(const Entry &self) {
  // In one piece and always of one length: a process that is killed here gives up the lock before its lease,
  // which others may then see as it is.
  std::string text = json::pretty(to_json(self));
  text.resize(std::max(text.size(), kLeaseBytes), '\n');
  const ssize_t written = ::pwrite(lease_.get(), text.data(), text.size(), 0);
  if (written != static_cast<ssize_t>(text.size()))
    throw SystemError("write " + lease_path_, written < 0 ? errno : ENOSPC);
}

void Directory::leave() noexcept {
  if (!lease_.valid()) return;
  ::unlink(lease_path_.c_str());
  lease_ = cli::Descriptor();
}

void Directory::wait(bool output_watched) {
  // A job that waits writes nothing and would not notice that nobody is left to read: ssh and systemd send no
  // signal when their client goes away.
  struct pollfd sources[] = {{changes_.get(), POLLIN, 0}, {output_watched ? STDOUT_FILENO : -1, 0, 0}};
  ::poll(sources, 2, 200);
  check_interrupt();
  if (sources[1].revents & (POLLERR | POLLHUP)) throw ClosedPipe();
  char events[4096];
  while (changes_.valid() && ::read(changes_.get(), events, sizeof events) > 0) {
  }
}

} // namespace tl::lease
