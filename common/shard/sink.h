// Where features go and where they come from, whatever the kind: a folder of shards, a stream on a
// pipe, or one file. Callers never branch on the kind.
#pragma once

#include "shard/changes.h"
#include "shard/delivery.h"
#include "shard/partition.h"
#include "shard/shard.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::shard {

/// How far the parts of a folder are, once one of them is finished.
struct PartReport {
  Partition partition;
  std::vector<std::int64_t>
      missing; // parts that are still to come, or to come again; {}: the folder is whole
  std::int64_t records = 0, skipped = 0; // of the whole folder
};

/// What finish() reports. inputs = records + skipped.
struct SinkReport {
  std::int64_t records = 0;       // rows of the data set as a reader will now see it
  std::int64_t skipped = 0;       // as told to finish()
  std::int64_t written = 0;       // rows whose features were written by this run
  std::int64_t shards = 0;        // shards written by this run
  std::uint64_t bytes = 0;        // bytes written by this run
  std::optional<Changes> changes; // folders only: against the index that was there before
  std::optional<PartReport> part; // folders, of the writer of a part
};

/// A record as the data set lists it: its features are known by `record`.
struct Member {
  Digest record;
  std::int64_t label = -1;
  std::int64_t row = 0; // index in the listing
  std::string id;
};

/// Readers see the records in the order of the calls to keep() and append().
class ShardSink {
public:
  virtual ~ShardSink() = default;

  /// True if the features of this content are there already, from an earlier run or from this one:
  /// call keep() in place of append(). Thread-safe.
  virtual bool has(const Digest &record) const = 0;
  /// Lists a record whose features are there. Throws Error if they are not.
  virtual void keep(const Member &member) = 0;
  /// Adds records with their features; `rows.meta` is not looked at. May write, or hold the rows
  /// until a shard is full: their tensors must not be written to afterwards.
  virtual void append(const Shard &rows) = 0;
  /// How the extraction fared, for the reader of a stream; others have no use for it. Before finish().
  virtual void tell(const SenderReport &) {}
  /// Writes what is held and makes the whole visible. Without it, a folder keeps its earlier index
  /// and the new shards serve the next run; a stream is seen as cut off; a file never appears.
  virtual SinkReport finish(std::int64_t skipped) = 0;
  /// The extraction ends early: the reader of a stream is told why, a folder keeps the rows that it
  /// holds for the next run. Call it instead of finish(), unless the sink itself has thrown. Never throws.
  virtual void fail(const std::string &reason) noexcept = 0;
  /// What the user should know about the opening: damaged shards removed, ... One line each.
  virtual const std::vector<std::string> &notes() const = 0;
};

/// Gives rows in order; each shard has all of meta() and verified bytes.
class ShardSource {
public:
  virtual ~ShardSource() = default;

  virtual const ShardMeta &meta() const = 0;
  /// Records that next() will give in all, where that is known beforehand.
  virtual std::optional<std::int64_t> expected() const = 0;
  /// The next rows, or nothing at the proven end. Throws FormatError for damage or a cut-off
  /// stream, Error with the sender's reason when it failed.
  virtual std::optional<Shard> next() = 0;
  /// Records that the extraction skipped. Known once next() has returned nothing.
  virtual std::int64_t skipped() const = 0;
  /// How a stream arrived. Known once next() has returned nothing; never for what lies on a disk.
  virtual std::optional<Delivery> delivery() const { return std::nullopt; }
};

/// "-": a stream on stdin. A folder, a shard file, or a file that holds a stream.
/// Throws Error, FormatError naming the path.
std::unique_ptr<ShardSource> open_shards(const std::string &path);

struct SinkOptions {
  std::int64_t rows_per_shard = 1024;                  // folders: at most
  std::size_t bytes_per_shard = std::size_t{64} << 20; // folders: about
  bool force = false;                                  // folders: replace shards of another key
  /// Folders: true for a shard file (its path, its number) that is still the one that was verified before;
  /// its bytes are not looked at again. Empty: every shard is verified. Readers verify what they read.
  std::function<bool(const std::string &path, std::int64_t number)> trusted;
  std::optional<PartOf> part;           // folders: others write the other parts
  std::optional<std::int64_t> expected; // streams: records that are going to be sent
};

/// Bytes that the sink for `path` holds at most, beside the rows that are just handed to it. `row_bytes`: of
/// one record.
std::size_t sink_memory(const std::string &path, std::size_t row_bytes, const SinkOptions &options);

/// "-": a stream on stdout. A name ending in .safetensors: one shard, which is held in memory until
/// finish(). Anything else: a folder. Throws Error, SystemError.
std::unique_ptr<ShardSink> create_sink(const std::string &path, const ShardMeta &meta,
                                       const SinkOptions &options = {});

} // namespace tl::shard
