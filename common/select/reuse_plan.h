// What the candidates of an experiment have in common, and how often it is computed: once.
//
// The plan is data: the executor (select.h) walks it, `tl-select --explain` prints it, and
// reuse-plan.json (schemas/reuse.schema.json) keeps it.
#pragma once

#include "select/candidate.h"
#include "shard/shard.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tl::select {

/// Values that are extracted into one folder of shards and read by one or more candidates.
struct FeatureSet {
  Digest key;            // of the values' hashes, types and shapes, not of their names: the folder's name
  shard::ShardMeta meta; // names as in the first candidate that reads it
  std::vector<std::size_t> candidates;
  std::int64_t bytes = 0; // of a record
  double flops = 0;       // of a record, if it were computed alone
  std::size_t pass = 0;
  bool stored = false; // an earlier run left features here
};

/// One reading of the data set, which computes the values of one or more sets.
struct Pass {
  std::vector<std::size_t> sets;
  double flops = 0; // of a record: what the sets share counts once
};

struct ReusePlan {
  std::int64_t records = 0; // of the data set
  std::vector<FeatureSet> sets;
  std::vector<Pass> passes;
  std::vector<std::size_t> set_of; // of each candidate
  double shared_flops = 0;         // of a record through all passes, if nothing is stored yet
  double separate_flops = 0;       // of a record through the frozen layers of each candidate, in each epoch

  std::int64_t bytes() const; // of all sets together, for a record
};

/// For a set that an earlier run extracted: a digest of the records whose features are there. A pass
/// takes sets of equal state only, so that old ones are not computed again beside new ones.
using StoredState = std::function<std::optional<Digest>(const FeatureSet &)>;

ReusePlan make_reuse_plan(const std::vector<Candidate> &candidates, std::int64_t records,
                          const StoredState &stored);

json::Value to_json(const ReusePlan &plan, const std::vector<Candidate> &candidates);
/// Lines for people: each pass, its sets, and who reads them.
std::vector<std::string> explain(const ReusePlan &plan, const std::vector<Candidate> &candidates);

} // namespace tl::select
