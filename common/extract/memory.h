// The memory of an extraction: what it needs, measured, and the batches that fit into its share.
#pragma once

#include "extract/prefix.h"
#include "lease/lease.h"
#include "runtime/clock.h"
#include "shard/sink.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tl::extract {

/// Bytes beyond what the process has at its start that loading and optimising this model takes at most; the
/// path may be empty. Measured on networks of 5 to 530 MB.
std::int64_t loading_memory(const std::string &model_path);

struct MemoryOptions {
  std::int64_t least = 1, wanted = 32; // records of a batch
  std::size_t threads = 1;             // that read and decode
  std::int64_t available = 0;          // bytes: what needs more for a record is not tried
  std::string output;
  shard::SinkOptions sink;
};

struct MemoryModel {
  lease::Demand demand;
  std::int64_t network_per_record = 0; // the part of demand.per_record that is free between two batches
};

/// Measures: a few records are read and decoded, the network runs on batches of two sizes while its tensors
/// are counted, and then the process looks at itself. What a record takes on its way through the stages
/// follows from how many each of them may hold. Throws what Prefix::run() throws.
MemoryModel measure_memory(const data::Dataset &dataset, const Prefix &prefix, const MemoryOptions &options);

/// For ExtractOptions::adapt: asks the lease for the batch, and gives back what smaller batches leave free.
class AdaptiveBatch {
public:
  /// The lease runs with this model's demand.
  AdaptiveBatch(lease::Lease &lease, const MemoryModel &model);
  std::int64_t operator()();

private:
  lease::Lease &lease_;
  std::int64_t network_per_record_;
  Stopwatch since_;
};

} // namespace tl::extract
