// Records -> features -> shards, all stages at once: threads read and decode, the caller's thread runs
// the network, a writer thread hands the rows to the sink.
#pragma once

#include "data/loader.h"
#include "extract/prefix.h"
#include "shard/sink.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tl::extract {

struct ExtractOptions {
  std::int64_t batch = 32; // changes no feature beyond rounding
  std::size_t threads = 0; // that read and decode; 0: one per core
  bool keep_going = false; // damaged records are skipped and named, instead of ending the work
  bool shuffle = false;    // in the order of mix(seed, hash_text(id)), else in listing order
  std::uint64_t seed = 0;
  /// Called from the calling thread with the records that were dealt with since the last call.
  std::function<void(std::size_t records)> progress;
};

/// One stage of the pipeline. The one whose share is near 1 holds up the others.
struct Stage {
  std::string name;   // "read", "decode", "compute", "write"
  double seconds = 0; // of work, summed over its threads
  double busy = 0;    // share of the time that its threads had; read and decode share theirs
};

struct ExtractReport {
  std::int64_t inputs = 0;   // records of the data set = sink.records + skipped.size()
  std::int64_t computed = 0; // records whose features were computed by this run
  std::int64_t kept = 0;     // records whose features were there
  std::vector<data::RecordNote> skipped;
  std::vector<data::RecordNote> warned;
  std::int64_t batch = 0;
  std::size_t threads = 0; // that read and decoded
  std::uint64_t bytes_read = 0;
  double seconds = 0;
  std::vector<Stage> stages; // in the order of the pipeline
  shard::SinkReport sink;

  /// Name of the stage that was busiest.
  const std::string &bottleneck() const;
};

/// Extracts every record of the data set into `sink`, which was made for prefix.meta() with the data
/// set's classes. Records whose content the sink has are read, but neither decoded nor computed.
/// Nothing is handed to the sink before the first batch was computed and found sound. A feature
/// that is not finite makes its record a damaged one. On an error or a signal, what was handed over
/// stays with the sink, which is told through fail(). Throws Error naming the record, Interrupted,
/// and what the sink throws.
ExtractReport extract(const data::Dataset &dataset, const Prefix &prefix, shard::ShardSink &sink,
                      const ExtractOptions &options = {});

/// The report as a document, schemas/extraction.schema.json.
json::Value to_json(const ExtractReport &report);

} // namespace tl::extract
