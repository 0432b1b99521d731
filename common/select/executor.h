// Who does the work of a plan: this process, or jobs that make or Slurm run.
#pragma once

#include "select/commands.h"

#include <string>

namespace tl::select {

enum class Engine { local, make, slurm };

struct ExecutorOptions {
  Engine engine = Engine::local;
  std::int64_t jobs = 0;   // parts of the extraction, and what make runs at once; 0: one per core
  bool only_write = false; // writes the jobs, runs nothing
  std::string sbatch;      // further options for Slurm
};

/// "local", "make", "slurm".
Engine engine_from_name(const std::string &name);

/// Writes the jobs of the plan and, unless options.only_write, runs them to the end. Throws Error if one
/// failed, or if there is no such engine here; what others did is kept.
void execute(const ReusePlan &plan, const std::vector<Candidate> &candidates, const Call &call,
             const ExecutorOptions &options);

} // namespace tl::select
