#include "select/executor.h"

#include "cli/error.h"
#include "cli/log.h"
#include "runtime/host.h"

#include <cerrno>
#include <csignal>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tl::select {

namespace {

/// Runs a program with its standard output on our standard error, where messages go. Returns its exit status.
int run(const std::vector<std::string> &words) {
  std::vector<char *> arguments;
  for (const std::string &word : words) arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) throw SystemError("run " + words[0], failed);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw SystemError("wait for " + words[0], errno);
    if (interrupted()) ::kill(child, SIGTERM);
  }
  check_interrupt();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string words_of(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

} // namespace

Engine engine_from_name(const std::string &name) {
  return name == "make" ? Engine::make : name == "slurm" ? Engine::slurm : Engine::local;
}

void execute(const ReusePlan &plan, const std::vector<Candidate> &candidates, const Call &call,
             const ExecutorOptions &options) {
  const std::int64_t jobs = options.jobs > 0 ? options.jobs : usable_cores();
  write_jobs(call.runs, commands_of(plan, candidates, call, jobs), options.sbatch);
  if (options.only_write) return;
  const std::string folder = call.runs + "/jobs";
  const std::vector<std::string> words =
      options.engine == Engine::make
          ? std::vector<std::string>{"make", "--no-print-directory", "-k", "-C", folder,
                                     "-j",   std::to_string(jobs)}
          : std::vector<std::string>{"sh", folder + "/submit.sh"};
  if (const int status = run(words); status != 0)
    throw Error("a job failed (status " + std::to_string(status) + " of " + words_of(words) +
                (options.engine == Engine::slurm ? "); see the .log files there" : ")") +
                "; run again to do what is missing");
}

} // namespace tl::select
