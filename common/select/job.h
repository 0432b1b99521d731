// The work of a run in pieces that several processes do, on one host or on many, from the plan that one of
// them has made: RUNS/reuse-plan.json. Whatever they leave, a later run in the folder finds and uses.
#pragma once

#include "select/select.h"
#include "shard/partition.h"

#include <string>
#include <vector>

namespace tl::select {

/// The plan that `document` keeps. Throws Error if it is of other candidates.
ReusePlan plan_from_json(const json::Value &document, const std::vector<Candidate> &candidates,
                         const SharedGraphs &graphs);

/// What one process does.
struct Job {
  std::optional<shard::Partition> part; // extracts this part of the data set for all passes of the plan
  std::vector<std::string> candidates;  // trains these, by id, after all parts were extracted
};

/// Does the job in options.runs, as a run there would do it, and returns the number of records that were
/// skipped. Takes the locks of what it writes, not that of the folder: throws Error naming the process if
/// another one does the same job, and if there is no plan, or one of another experiment.
std::size_t run_job(const Experiment &experiment, const data::Dataset &dataset, const SelectOptions &options,
                    const Job &job, const SelectEvents &events = {});

} // namespace tl::select
