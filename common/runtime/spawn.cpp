#include "runtime/spawn.h"

#include "cli/error.h"

#include <csignal>
#include <spawn.h>
#include <unistd.h>

namespace tl {

pid_t spawn(const std::string &program, const std::vector<std::string> &words,
            const std::vector<std::pair<int, int>> &descriptors, const std::string &what) {
  std::vector<char *> arguments;
  for (const std::string &word : words) arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto &[ours, childs] : descriptors) posix_spawn_file_actions_adddup2(&actions, ours, childs);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) throw SystemError("run " + what, failed);
  return child;
}

} // namespace tl
