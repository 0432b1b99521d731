// How fast a stream was made and how fast it arrived: what a plan for the next run can learn from.
#pragma once

#include "json/document.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::shard {

/// One stage of a pipeline. The one whose share is near 1 holds up the others.
struct Stage {
  std::string name;
  double seconds = 0; // of work, summed over its threads
  double busy = 0;    // share of the time that its threads had
};

/// What a sender tells of itself once everything is sent.
struct SenderReport {
  double seconds = 0;        // of the whole extraction
  std::vector<Stage> stages; // in the order of the pipeline; the last one, "write", waits for the reader

  /// Share of the time in the stage of that name; 0 without it.
  double busy(const std::string &name) const;
};

/// How the rest of a stream arrived after its first shard, so that no start-up is counted.
struct Delivery {
  std::int64_t records = 0; // 0: it was one shard, and nothing is known
  std::uint64_t bytes = 0;
  double seconds = 0;
  double reading = 0; // of them, waiting for bytes and taking them
  double parsing = 0; // checking and decompressing shards, the first one too
  SenderReport sender;
};

json::Value to_json(const SenderReport &report);
/// Throws FormatError naming `origin`, also for numbers that no sender can mean.
SenderReport sender_from_json(const json::Value &value, const std::string &origin);

} // namespace tl::shard
