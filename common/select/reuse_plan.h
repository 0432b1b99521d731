// What the candidates of an experiment have in common: which values are kept on disk, how often the data
// set is read for them, which candidates train in one pass, and what each pass loads and computes.
//
// The plan is data: planner.h makes it, the executor (select.h) walks it, `tl-select --explain` prints it,
// and reuse-plan.json (schemas/reuse.schema.json) keeps it.
#pragma once

#include "reuse/fuse.h"
#include "select/shared_graph.h"
#include "shard/shard.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::select {

/// One value that is extracted into a folder of shards of its own.
struct FeatureSet {
  Digest key;               // of the value's hash, type and shape, not of its name: the folder's name
  shard::ShardMeta meta;    // one value
  std::size_t graph = 0;    // index into SharedGraphs::graphs
  graph::ValueId value = 0; // there; 0: the record itself
  std::vector<std::size_t> candidates; // that read it
  std::int64_t bytes = 0;              // of a record
  double flops = 0;                    // of a record, if it were computed alone
  std::size_t pass = 0;
  bool stored = false; // an earlier run left features here
};

/// One reading of the data set, which computes the values of one or more sets.
struct Pass {
  std::vector<std::size_t> sets;
  double flops = 0; // of a record: what the sets share counts once
};

/// Candidates that train in one pass over what it loads and computes.
struct Group {
  std::vector<std::size_t> candidates;
  std::size_t graph = 0;
  std::vector<std::size_t> sets;       // that it loads
  bool records = false;                // it reads and decodes the records, too
  std::vector<graph::ValueId> outputs; // what its candidates read, all together
  int computed = 0;                    // frozen values that are computed in a pass
  double passes = 0;                   // in which values are loaded or computed; later epochs read memory
  std::int64_t memory = 0;             // bytes, without the rows that are kept in memory
  std::int64_t cache = 0;              // bytes of memory for these rows, at most
};

/// Predicted seconds of a run.
struct Predicted {
  double plan = 0;
  std::optional<double> everything; // with all that candidates read on disk; nothing if the budget is less
  double separate = 0;              // each candidate alone, from the records in each epoch
  double making = 0;                // of `plan`: to extract
  double training = 0;              // of each: the candidates' own steps
};

struct ReusePlan {
  std::int64_t records = 0;  // of the data set
  std::int64_t expected = 0; // that the disk budget has to suffice for
  std::optional<std::int64_t> disk_budget;
  std::int64_t memory_budget = 0;
  reuse::Keep keep = reuse::Keep::plan;
  bool fuse = true;
  std::vector<FeatureSet> sets;
  std::vector<Pass> passes;
  std::vector<Group> groups;
  std::vector<std::size_t> group_of; // of each candidate
  double disk = 0;                   // bytes of all sets for the expected records, with their indexes
  std::size_t values = 0;            // of the multi-model graphs
  double shared_flops = 0;           // of a record through all frozen layers, once
  double separate_flops = 0;         // of a record through those of each candidate, in each epoch
  Predicted predicted;
  double gap = 0;      // to the best that could be kept for these groups, as a share
  double planning = 0; // seconds

  std::int64_t bytes() const; // of all sets together, for a record
};

std::string_view name_of(reuse::Keep keep);

json::Value to_json(const ReusePlan &plan, const std::vector<Candidate> &candidates,
                    const SharedGraphs &graphs);
/// Lines for people: what is predicted, what is kept, and what trains together.
std::vector<std::string> explain(const ReusePlan &plan, const std::vector<Candidate> &candidates,
                                 const SharedGraphs &graphs);

} // namespace tl::select
