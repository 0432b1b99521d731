// Records -> features -> shards, all stages at once: threads read and decode, the caller's thread runs
// the network, one thread encodes, where there is a codec, and one hands the rows to the sink.
#pragma once

#include "data/loader.h"
#include "extract/prefix.h"
#include "extract/report.h"
#include "shard/sink.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace tl::extract {

struct ExtractOptions {
  std::int64_t batch = 32; // changes no feature beyond rounding
  std::size_t threads = 0; // that read and decode; 0: one per core
  bool keep_going = false; // damaged records are skipped and named, instead of ending the work
  bool shuffle = false;    // in the order of mix(seed, hash_text(id)), else in listing order
  std::uint64_t seed = 0;
  std::optional<shard::Partition> part; // only these records; others extract the rest
  data::HashCache *hashes = nullptr;    // knows records without reading them; may be null
  /// Called from the calling thread before each batch: how many records it is to have, where `batch` is only
  /// the first one's. May be empty.
  std::function<std::int64_t()> adapt;
  /// Called from the calling thread with the records that were dealt with since the last call.
  std::function<void(std::size_t records)> progress;
};

/// Extracts every record of the data set into `sink`, which was made for prefix.meta() with the data
/// set's classes. Records whose content the sink has are neither decoded nor computed,
/// and are read only to be hashed, unless options.hashes knows them.
/// Nothing is handed to the sink before the first batch was computed and found sound. A feature
/// that is not finite makes its record a damaged one. On an error or a signal, what was handed over
/// stays with the sink, which is told through fail(). Throws Error naming the record, Interrupted,
/// and what the sink throws.
ExtractReport extract(const data::Dataset &dataset, const Prefix &prefix, shard::ShardSink &sink,
                      const ExtractOptions &options = {});

} // namespace tl::extract
