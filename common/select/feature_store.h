// Features of several sets, extracted in one pass over the data, each set into its own shard folder; and the
// room that they take.
#pragma once

#include "data/source.h"
#include "extract/extract.h"
#include "select/planner.h"
#include "shard/folder.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tl::select {

/// Hands each set its columns of the rows that one extraction computes. A record counts as present when
/// every set has it; a set that has it already (an earlier run was interrupted) only lists it again.
class FanOutSink : public shard::ShardSink {
public:
  struct Target {
    std::unique_ptr<shard::ShardSink> sink;
    std::vector<std::size_t> columns; // of the values that the extraction computes
  };
  /// `targets` is not empty.
  explicit FanOutSink(std::vector<Target> targets);

  bool has(const Digest &record) const override;
  void keep(const shard::Member &member) override;
  void append(const shard::Shard &rows) override;
  /// The report of the first set, with what all of them wrote.
  shard::SinkReport finish(std::int64_t skipped) override;
  void fail(const std::string &reason) noexcept override;
  const std::vector<std::string> &notes() const override { return notes_; }

  /// After finish(): one for each target.
  const std::vector<shard::SinkReport> &reports() const { return reports_; }

private:
  std::vector<Target> targets_;
  std::vector<std::string> notes_;
  std::vector<shard::SinkReport> reports_;
};

/// STORE/<key of the set>
std::string set_folder(const std::string &store, const FeatureSet &set);

/// True for the name of a folder as set_folder() makes it.
bool is_set_folder(const std::string &name);

/// Of all files below a folder; 0 if there is none.
std::int64_t bytes_below(const std::string &folder);

/// What make_reuse_plan() asks for: nothing if the folder has no readable index.
std::optional<Stored> stored_state(const std::string &store, const FeatureSet &set);

/// Removes folders of features that the plan does not use, the least recently used first, until they and
/// what the plan is going to keep fit into the disk budget. Returns what it removed, one line each.
std::vector<std::string> make_room(const std::string &store, const ReusePlan &plan);

/// Drops the rows of records that are gone, if the features have outgrown the disk budget. One line for each
/// folder.
std::vector<std::string> trim(const std::string &store, const ReusePlan &plan);

/// Folders whose records are those that a group trains on: of its sets, or of any set that lacks none (which
/// `complete` tells). Empty if only the data set itself can tell.
std::vector<std::string> folders_of_records(const ReusePlan &plan, const Group &group,
                                            const std::string &store,
                                            const std::function<bool(std::size_t set)> &complete);

/// How tl-select extracts: in the order in which most candidates read.
extract::ExtractOptions extract_options(std::uint64_t seed, std::size_t threads, bool keep_going,
                                        const std::function<void(std::size_t records)> &progress);

struct PassReport {
  extract::ExtractReport extraction;
  std::vector<shard::SinkReport> sets; // in the order of Pass::sets
  std::vector<std::string> notes;      // damaged shards removed, ...
};

/// Brings the sets of one pass up to date with the data set: computes what is not there, lists what is.
PassReport run_pass(const ReusePlan &plan, const Pass &pass, const SharedGraphs &graphs,
                    const data::Dataset &dataset, const std::string &store,
                    const extract::ExtractOptions &options, const shard::SinkOptions &sink_options = {});

} // namespace tl::select
