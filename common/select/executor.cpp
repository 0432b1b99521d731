#include "select/executor.h"

#include "cli/error.h"
#include "cli/log.h"
#include "runtime/host.h"
#include "runtime/spawn.h"

#include <cerrno>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace tl::select {

namespace {

/// Runs a program with its standard output on our standard error, where messages go. Returns its exit status.
int run(const std::vector<std::string> &words) {
  const pid_t child = spawn(words[0], words, {{STDERR_FILENO, STDOUT_FILENO}}, words[0]);
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
