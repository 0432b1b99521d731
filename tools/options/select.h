// What tl-select can be told.
#pragma once

#include "cli/app.h"
#include "shard/partition.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tl::tools {

struct SelectArguments {
  std::string experiment, dataset, runs, html, materialise = "plan";
  bool json = false, explain = false, fuse = true, keep_going = false, warm_start = false, verify = false;
  std::optional<std::int64_t> disk_budget, memory_budget; // bytes
  std::size_t threads = 0;

  std::string executor = "local", sbatch;
  std::int64_t jobs = 0;
  bool only_write_jobs = false;
  std::optional<shard::Partition> part;
  std::vector<std::string> candidates;

  // Of the commands
  std::string plot;
  std::int64_t budget = 0; // bytes
  bool trials = false, dry_run = false;

  /// True for one job of a run that was planned before.
  bool is_job() const { return part || !candidates.empty(); }
};

/// The command line of tl-select; cli::run() parses it.
class SelectCommand {
public:
  SelectCommand();
  cli::App app; // with the sub-commands history and gc

  /// After parsing. Throws UsageError.
  SelectArguments arguments() const;

private:
  SelectArguments given_;
};

} // namespace tl::tools
