// What a process that runs networks arranges before main(): linked into the programs that use LibTorch.
#include "runtime/allocation.h"

#include <cstddef>
#include <cstring>
#include <unistd.h>

namespace {

constexpr std::size_t kMaxVariables = 4096;
char kWaitPolicy[] = "OMP_WAIT_POLICY=passive";

bool is_set(char *const *environment, const char *name) {
  const std::size_t length = std::strlen(name);
  for (; *environment; ++environment)
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return true;
  return false;
}

/// OpenMP's idle threads spin for milliseconds by default, on cores that the program at the other end
/// of the pipe needs: `tl-extract -o - | tl-train -` then takes longer than its stages one by one.
/// libgomp reads its policy from the environment when it is loaded and offers no call for it, so the
/// process starts over with the variable set. From .preinit_array, before the constructors of any
/// library, that costs a tenth of a second; from main() it would cost all of LibTorch's start-up again.
/// A policy that the user set stays.
void wait_passively(int, char **arguments, char **environment) {
  if (is_set(environment, "OMP_WAIT_POLICY") || is_set(environment, "GOMP_SPINCOUNT")) return;
  static char *extended[kMaxVariables + 2]; // no constructor has run: nothing may be allocated
  std::size_t count = 0;
  for (; environment[count]; ++count) {
    if (count == kMaxVariables) return;
    extended[count] = environment[count];
  }
  extended[count] = kWaitPolicy;
  static char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  execve(program, arguments, extended); // where it fails, the program works all the same
}

// A sanitizer's own start-up may come after ours.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((section(".preinit_array"), used)) void (*const at_load)(int, char **,
                                                                       char **) = wait_passively;
#endif

const bool freed_memory_kept = (tl::keep_freed_memory(), true);

} // namespace
