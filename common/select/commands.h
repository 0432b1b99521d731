// The commands that do the work of a plan, as files that engines which exist can run: RUNS/jobs.
//
//   extract-1.sh ... extract-P.sh   each a part of the data set
//   train-1.sh ... train-G.sh       each a group of candidates that train in one pass
//   Makefile                        the same with what waits for what; *.done are there when it is done
//   submit.sh                       for Slurm: an array of extractions, and one of trainings that waits for
//   it
#pragma once

#include "select/candidate.h"
#include "select/reuse_plan.h"

#include <string>
#include <vector>

namespace tl::select {

/// The call of tl-select that is divided.
struct Call {
  std::string program;             // path, or name
  std::string experiment, dataset; // as given
  std::string runs;
  std::size_t threads = 0; // of each job; 0: as many as there are cores
  bool keep_going = false;
  bool train = true; // false: candidates are trained rung by rung, by who ranks them
};

struct Commands {
  std::vector<std::string> extract, train; // lines of a shell
};

/// `parts`: how many extract at once. Nothing is to be extracted if the plan has no passes.
Commands commands_of(const ReusePlan &plan, const std::vector<Candidate> &candidates, const Call &call,
                     std::int64_t parts);

/// One word of a shell, whatever its bytes.
std::string quoted(const std::string &word);

/// Writes the files above into RUNS/jobs, in place of those of an earlier plan. `sbatch`: further options of
/// Slurm for every job.
void write_jobs(const std::string &runs, const Commands &commands, const std::string &sbatch);

} // namespace tl::select
