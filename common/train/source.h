// Where training gets its records from, ready for the first layer that the compute side runs: a folder
// of shards, a stream that still arrives, or a dataset that is decoded here.
#pragma once

#include "runtime/tensor.h"
#include "shard/delivery.h"
#include "train/split.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tl::train {

/// Some records, and for each arriving value one tensor {records, shape...}.
struct Chunk {
  std::vector<RecordInfo> records;
  std::vector<Tensor> values;
};

/// How the records came through a pipe.
struct Arrival {
  shard::Delivery delivery;
  double handling = 0; // seconds in which they were decoded and kept, by the thread that reads the pipe
};

/// Used by one thread at a time. It first delivers every record once, in arrival order; a record's
/// position is its place in that order. After that, records can be asked for by position.
class RecordSource {
public:
  virtual ~RecordSource() = default;

  /// Class names, in bytes.
  virtual const std::vector<std::string> &classes() const = 0;
  /// Records in all, where that is known beforehand: for progress only.
  virtual std::optional<std::int64_t> expected() const = 0;
  /// The next records: of the arrival, or in the order given to start(). At most `limit`; nothing
  /// at the end. Throws Error naming a record that is damaged.
  virtual std::optional<Chunk> next(std::int64_t limit) = 0;
  /// Begins another pass over these positions. Only after next() has returned nothing once.
  virtual void start(std::vector<std::int64_t> positions) = 0;
  /// Records left out (damaged, with --keep-going), as "id: reason". Complete after the arrival.
  virtual const std::vector<std::string> &skipped() const = 0;
  /// Records that the extraction left out before they came here.
  virtual std::int64_t skipped_before() const = 0;
  /// True if keeping its values in memory would save nothing: mapped files, no decoding.
  virtual bool cheap() const = 0;
  /// Known once everything has arrived; nothing for what does not come through a pipe.
  virtual std::optional<Arrival> arrival() const { return std::nullopt; }
};

} // namespace tl::train
