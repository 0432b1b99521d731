// A folder of shards that grows: shard-NNNNNN.safetensors files, which never change, and
// index.safetensors, which says which of their rows are the data set now, in which order, with
// which label and id. A label, a name or a membership changes without touching a feature.
//
// Crash safety: shards and index appear whole or not at all, and the index is replaced last. The
// lock file (.lock) holds the writer's pid while it works; if the first extraction into a folder
// died, readers find the pid and no index, and refuse the folder as unfinished.
//
// Several writers may share the work, each on its part of the data set (partition.h). Their shards have
// different numbers, each has a lock and an index of its own, and whoever finishes last puts the indexes
// together.
#pragma once

#include "shard/partition.h"
#include "shard/sink.h"

namespace tl::shard {

/// Where the features of one member of the data set are.
struct IndexEntry {
  Member member;
  std::int64_t shard = 0; // number in the shard's file name
  std::int64_t place = 0; // row in that shard
};

/// The content of index.safetensors.
struct FolderIndex {
  ShardMeta meta; // with the current classes
  std::int64_t skipped = 0;
  std::vector<IndexEntry> entries; // in reading order
  std::optional<PartOf> part;      // these are the records of one part only
};

class FolderFiles; // folder_files.h

void write_index(FolderFiles &folder, const FolderIndex &index);
/// Nothing when the folder has no index. Throws FormatError if it is damaged.
std::optional<FolderIndex> read_index(const FolderFiles &folder);
std::optional<FolderIndex> read_index(const std::string &folder);
/// The index of one part.
std::optional<FolderIndex> read_index(const FolderFiles &folder, const Partition &part);

/// Compares two states of a data set. Classes are compared by name, whatever their numbers.
Changes compare(const FolderIndex &before, const FolderIndex &after);

/// How many shards a FolderSink writes at a time: full ones, and small ones, for which the disk is waited for
/// rather than busy.
inline constexpr std::size_t kFullShardsWritten = 2, kShardsWritten = 8;

/// Shards are written in the background; append() and finish() report the failure of an earlier one.
class FolderSink : public ShardSink {
public:
  /// Creates the folder; takes its lock, or throws Error naming the process that holds it; removes
  /// temporary files of dead writers; verifies every shard that options.trusted does not vouch for, removes
  /// the damaged ones and says so in notes(). Throws Error if the folder's shards have another key (unless
  /// options.force, which removes them), NewerVersion if newer tools wrote them.
  FolderSink(const std::string &folder, ShardMeta meta, const SinkOptions &options = {});
  ~FolderSink() override;

  bool has(const Digest &record) const override;
  void keep(const Member &member) override;
  void append(const Shard &rows) override;
  SinkReport finish(std::int64_t skipped) override;
  /// What is held becomes a shard that serves the next run.
  void fail(const std::string &reason) noexcept override;
  const std::vector<std::string> &notes() const override;

private:
  struct State;
  std::unique_ptr<State> state_;
};

struct PruneReport {
  std::int64_t rows = 0;   // rows dropped
  std::int64_t shards = 0; // files removed
  std::uint64_t bytes = 0; // disk space freed
};
/// Drops the rows that the index does not name. Nothing else ever removes a good row.
/// Throws Error if the folder has no index or is being written.
PruneReport prune(const std::string &folder);

/// Reads a folder in the order of its index, or shard by shard when it has none.
/// Used by one thread at a time. Files are mapped when it is opened, so that a writer or prune() that
/// comes later changes nothing for it.
class FolderSource : public ShardSource {
public:
  explicit FolderSource(const std::string &folder);
  ~FolderSource() override;

  const ShardMeta &meta() const override;
  std::optional<std::int64_t> expected() const override;
  std::optional<Shard> next() override;
  std::int64_t skipped() const override;

  const std::vector<IndexEntry> &entries() const;
  /// Rows of the data set by their place in entries(), in any order, copied.
  Shard read(const std::vector<std::int64_t> &positions);
  void rewind();

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tl::shard
