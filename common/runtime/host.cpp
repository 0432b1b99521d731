#include "runtime/host.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

namespace tl {

namespace {

std::string first_line_of(const char *path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Cores that the control group's quota pays for; 0 without a quota.
int quota_cores() {
  std::istringstream v2(first_line_of("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  if (!(v2 >> quota >> period)) {
    std::istringstream v1_quota(first_line_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
    std::istringstream v1_period(first_line_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
    if (!(v1_quota >> quota) || !(v1_period >> period)) return 0;
  }
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(std::ceil(quota / period))) : 0;
}

} // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0
                  ? CPU_COUNT(&set)
                  : static_cast<int>(std::thread::hardware_concurrency());
  const int quota = quota_cores();
  if (quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

std::int64_t usable_memory() {
  std::int64_t bytes =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
  for (const char *path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::istringstream text(first_line_of(path));
    std::int64_t limit = 0;
    if (text >> limit && limit > 0) bytes = std::min(bytes, limit); // "max" is no number
  }
  return bytes;
}

} // namespace tl
