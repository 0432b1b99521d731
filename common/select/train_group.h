// Candidates of one group trained in one pass over the data: results, and the weights they left.
#pragma once

#include "select/reuse_plan.h"
#include "select/search.h"
#include "select/trial.h"

#include <functional>
#include <string>
#include <vector>

namespace tl::select {

/// Where the records of a group come from.
struct GroupInput {
  const SharedGraphs &graphs;
  const ReusePlan &plan;
  const data::Dataset &dataset;
  std::string store;                 // the folder that holds the features
  std::size_t threads = 0;           // that read and decode
  bool keep_going = false;           // damaged records are left out
  bool warm_start = false;           // from the weights that the last training of each candidate left
  data::HashCache *hashes = nullptr; // knows records without reading them; may be null
};

struct GroupEvents {
  std::function<TrialFolder(std::size_t candidate)> folder;
  /// Once for each candidate, as soon as it has what it was assigned; its result is saved by then.
  std::function<void(std::size_t candidate, Trial trial)> done;
  /// Records that could not be decoded, as "id: reason".
  std::function<void(const std::string &)> skipped;
};

/// Trains these candidates of one group, whose records have the digest `data`, exactly as each would be
/// trained alone. One whose folder has a training that stopped early goes on from there. A loss that is not
/// finite, and whatever else makes a candidate impossible, becomes a failed trial of that candidate alone; a
/// damaged folder, a full disk or a signal is thrown.
void train_group(const GroupInput &input, const std::vector<Candidate> &candidates, std::size_t group,
                 const std::vector<Assignment> &work, const Digest &data, const GroupEvents &events);

} // namespace tl::select
