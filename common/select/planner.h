// From measured costs to the plan: which values to keep on disk, and which candidates to train together.
#pragma once

#include "select/costs.h"
#include "select/reuse_plan.h"

#include <functional>
#include <optional>

namespace tl::select {

struct PlanOptions {
  std::int64_t records = 0;                // of the data set
  std::int64_t expected = 0;               // at least `records`
  std::optional<std::int64_t> disk_budget; // bytes of features
  std::int64_t memory_budget = 0;          // bytes
  double id_bytes = 16;                    // of a record's name, on average
  reuse::Keep keep = reuse::Keep::plan;
  bool fuse = true;
};

/// What an earlier run has left of a set.
struct Stored {
  Digest state;             // of the records whose features are there
  std::int64_t records = 0; // their number
};
/// Nothing if there is none. A pass takes sets of equal state only, so that old ones are not computed again
/// beside new ones.
using StoredState = std::function<std::optional<Stored>(const FeatureSet &)>;

/// Every value of every candidate must be in `costs`. Throws Error if everything is to be kept and the disk
/// budget does not suffice.
ReusePlan make_reuse_plan(const std::vector<Candidate> &candidates, const SharedGraphs &graphs,
                          const Costs &costs, const PlanOptions &options, const StoredState &stored);

/// That value as it is kept on disk, without its flops and readers.
FeatureSet feature_set(const SharedGraphs &graphs, std::size_t graph, graph::ValueId value);

/// What to plan for: `before` (of the last plan; 0: none), doubled until it suffices.
std::int64_t expected_records(std::int64_t records, std::int64_t before);

} // namespace tl::select
