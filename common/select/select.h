// tl-select: an experiment and a data set in, a leaderboard and the best model out.
//
// RUNS/
//   features/KEY/            shard folders, one for each feature set, by content
//   trials/ID/               result.json and weights.safetensors of each candidate
//   costs.json               what was measured for the plan
//   reuse-plan.json          what was shared
//   leaderboard.json         the result
//   catalogue.db             what is there, and the cycles so far (store/catalogue.h)
//   best/model.pt            the best candidate, as TorchScript
// Everything appears whole or not at all, and what is there is not done again: a run that was killed,
// or whose data has changed since, continues with what is missing.
#pragma once

#include "select/feature_store.h"
#include "select/leaderboard.h"

#include <functional>
#include <string>
#include <vector>

namespace tl::select {

struct SelectOptions {
  std::string runs;                             // folder, created if missing
  std::size_t threads = 0;                      // that read and decode; 0: one per core
  bool keep_going = false;                      // damaged records are skipped and named
  std::optional<std::int64_t> disk_budget = {}; // bytes of features; none: the experiment's, or no limit
  std::optional<std::int64_t> memory_budget =
      {}; // bytes of training; none: the experiment's, or half of the host's
  reuse::Keep keep = reuse::Keep::plan;
  bool fuse = true;        // candidates may train in one pass
  bool warm_start = false; // candidates start from the weights of their last training
  bool verify = false;     // every file and every shard is read again
  /// Called with the plan: others may do the work, or some of it, before this process does what is missing.
  /// False: this process ends here. May be empty.
  std::function<bool(const ReusePlan &, const std::vector<Candidate> &)> distribute = {};
};

/// What happens, as it happens. All may be empty.
struct SelectEvents {
  std::function<void(const ReusePlan &, const std::vector<Candidate> &, const SharedGraphs &)> planned;
  std::function<void(const std::string &)> note, warn;           // one line each
  std::function<void(std::size_t records)> extracted;            // since the last call
  std::function<void(const Candidate &, const Trial &)> trained; // or found
};

struct Selection {
  json::Value leaderboard; // the document; null: only a plan was made
  std::vector<Row> rows;
  std::size_t skipped = 0; // records
  std::string best;        // path of the best model; "" if every candidate failed
};

/// Throws Error naming the process if another run works in the same folder.
Selection select(const Experiment &experiment, const data::Dataset &dataset, const SelectOptions &options,
                 const SelectEvents &events = {});

} // namespace tl::select
