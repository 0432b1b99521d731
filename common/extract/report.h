// What one extraction did.
#pragma once

#include "data/loader.h"
#include "shard/sink.h"
#include "json/document.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tl::extract {

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
  /// "read", "decode", "compute", "encode" if there is a codec, "write"; read and decode share their threads.
  std::vector<shard::Stage> stages;
  shard::SinkReport sink;

  /// Name of the stage that was busiest.
  const std::string &bottleneck() const;
};

/// The report as a document, schemas/extraction.schema.json.
json::Value to_json(const ExtractReport &report, const std::string &dataset, const std::string &output,
                    const shard::ShardMeta &meta);

/// Lines for people: counts, changes of a folder, speed and how busy each stage was.
std::vector<std::string> summary(const ExtractReport &report);

} // namespace tl::extract
