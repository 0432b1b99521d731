// What tl-extract can be told, by whoever starts it and by the other end of a connection.
#pragma once

#include "cli/app.h"
#include "data/source.h"
#include "lease/lease.h"
#include "shard/partition.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tl::tools {

struct ExtractArguments {
  std::string plan, dataset, output, model, cut, codec, preprocess, order, report, execution;
  std::int64_t batch = 0, rows_per_shard = 1024;
  std::uint64_t seed = 0;
  std::size_t threads = 0;
  std::optional<shard::Partition> part;
  bool seed_given = false, keep_going = false, force = false, prune = false;
  data::SourceOptions source;
  std::string root, lease_dir;
  std::int64_t memory_budget = 0, least_batch = 8;
};

/// True if the job shares the memory of its host with others.
bool budgeted(const ExtractArguments &arguments);
/// With whom, and how much. Without what this process has.
lease::Options lease_options(const ExtractArguments &arguments);

/// The command line of tl-extract; cli::run() parses it.
class ExtractCommand {
public:
  ExtractCommand();
  cli::App app;

  /// After parsing: what is to be done. With --restrict that is what the other side asks for, if it is
  /// allowed; its request is then found in SSH_ORIGINAL_COMMAND, also by a program that this process becomes.
  /// Throws UsageError.
  ExtractArguments arguments() const;

private:
  ExtractArguments given_;
};

} // namespace tl::tools
