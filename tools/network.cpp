#include "network.h"

#include "cli/error.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace tl::tools {

namespace {

/// OpenMP's idle threads spin for milliseconds by default, on cores that the program at the other end of the
/// pipe needs: `tl-extract -o - | tl-train -` then takes longer than its stages one by one. libgomp reads its
/// policy from the environment when it is loaded and offers no call for it. A policy that the user set stays.
void let_idle_threads_sleep() {
  if (!std::getenv("GOMP_SPINCOUNT")) ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
}

} // namespace

void become_network_program(const char *name, char **arguments) {
  let_idle_threads_sleep();
  std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string program = std::filesystem::path(self).parent_path() / TL_LIBEXEC / name;
  arguments[0] = self.data(); // by which it can start jobs
  ::execv(program.c_str(), arguments);
  throw SystemError("run " + program + ", which belongs to this program", errno);
}

} // namespace tl::tools
