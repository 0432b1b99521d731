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

/// OpenBLAS chooses kernels by Intel's model numbers, and for a model that is newer than itself those of
/// 2004, whatever the processor can do: Debian 12's does 32 GFLOP/s on a core of an Emerald Rapids Xeon, and
/// 140 with the kernels named. It looks when it is loaded. A choice of the user stays.
void name_openblas_kernels() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (!__builtin_cpu_is("intel")) return;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    ::setenv("OPENBLAS_CORETYPE", "SkylakeX", /*overwrite=*/0);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    ::setenv("OPENBLAS_CORETYPE", "Haswell", /*overwrite=*/0);
#endif
}

} // namespace

void become_network_program(const char *name, char **arguments) {
  let_idle_threads_sleep();
  name_openblas_kernels();
  std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string program = std::filesystem::path(self).parent_path() / TL_LIBEXEC / name;
  arguments[0] = self.data(); // by which it can start jobs
  ::execv(program.c_str(), arguments);
  throw SystemError("run " + program + ", which belongs to this program", errno);
}

} // namespace tl::tools
