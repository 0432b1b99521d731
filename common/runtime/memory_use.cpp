#include "runtime/memory_use.h"

#include "cli/error.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace tl {

std::int64_t own_memory() {
  std::ifstream file("/proc/self/statm"); // pages: size, resident, those of it that are of files or shared
  std::int64_t size = 0, resident = 0, shared = 0;
  if (!(file >> size >> resident >> shared)) return 0;
  return (resident - shared) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
}

std::int64_t library_memory() {
  struct Mapped {
    bool code = false;
    std::int64_t bytes = 0;
  };
  std::map<std::string, Mapped> files;
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  Mapped *mapped = nullptr;
  while (std::getline(maps, line)) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (!first.empty() && first.back() != ':') { // "from-to rights offset device inode path"
      const std::size_t path = line.find('/');
      mapped = path == std::string::npos ? nullptr : &files[line.substr(path)];
      if (mapped && second.find('x') != std::string::npos) mapped->code = true;
    } else if (mapped && first == "Rss:") {
      mapped->bytes += std::stoll(second) * 1024;
    } else if (mapped && first == "Anonymous:") { // changed by this process
      mapped->bytes -= std::stoll(second) * 1024;
    }
  }
  std::int64_t bytes = 0;
  for (const auto &[path, file] : files)
    if (file.code) bytes += file.bytes;
  return bytes;
}

void limit_memory(std::int64_t more) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kilobytes = 0;
    if (!(words >> name >> kilobytes) || name != "VmData:") continue;
    struct rlimit limit = {};
    if (getrlimit(RLIMIT_DATA, &limit) != 0) throw SystemError("limit memory", errno);
    const auto bytes = static_cast<rlim_t>(kilobytes * 1024) + static_cast<rlim_t>(more);
    limit.rlim_cur = std::min(limit.rlim_max, bytes);
    if (setrlimit(RLIMIT_DATA, &limit) != 0) throw SystemError("limit memory", errno);
  }
}

} // namespace tl
