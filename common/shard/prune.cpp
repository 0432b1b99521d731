#include "shard/folder.h"
#include "shard/folder_files.h"
#include "shard/parts.h"

#include <map>

namespace tl::shard {

namespace {

/// Writes the rows of `shard` that `entries` name as a new shard, points the entries to it, and
/// returns its bytes.
std::uint64_t rewrite(FolderFiles &folder, const Shard &shard, std::int64_t number,
                      const std::vector<IndexEntry *> &entries) {
  std::map<std::int64_t, std::int64_t> places; // old row -> new row, in the old order
  for (const IndexEntry *entry : entries) places[entry->place] = 0;
  std::vector<RowRef> rows;
  for (auto &[old, now] : places) {
    now = static_cast<std::int64_t>(rows.size());
    rows.push_back({&shard, old});
  }
  Shard kept = gather(shard.meta, rows);
  kept.number = number;
  const auto bytes =
      folder.write(shard_name(number), true, [&](const ByteSink &sink) { return write_shard(kept, sink); });
  for (IndexEntry *entry : entries) {
    entry->place = places[entry->place];
    entry->shard = number;
  }
  return bytes;
}

std::int64_t distinct_rows(const std::vector<IndexEntry *> &entries) {
  std::map<std::int64_t, bool> places;
  for (const IndexEntry *entry : entries) places[entry->place] = true;
  return static_cast<std::int64_t>(places.size());
}

} // namespace

PruneReport prune(const std::string &folder) {
  const std::shared_ptr<FolderFiles> files = open_folder(folder);
  const std::unique_ptr<WriterLock> lock = files->lock();
  remove_parts(*files); // they may name what goes
  std::optional<FolderIndex> index = read_index(*files);
  if (!index)
    throw Error(folder +
                ": has no index, so nothing says which rows to keep; finish an extraction into it first");
  std::map<std::int64_t, std::vector<IndexEntry *>> wanted;
  for (IndexEntry &entry : index->entries) wanted[entry.shard].push_back(&entry);
  const auto shards = files->shards();
  std::int64_t next = shards.empty() ? 0 : shards.rbegin()->first + 1;
  PruneReport report;
  std::vector<std::string> obsolete;
  for (const auto &[number, bytes] : shards) {
    const std::string name = shard_name(number);
    const std::optional<Block> block = files->read(name);
    if (!block) throw Error(files->path(name) + ": was removed meanwhile by another process");
    const Shard shard = parse_stored_shard(*block, files->path(name));
    const std::vector<IndexEntry *> &entries = wanted[number];
    for (const IndexEntry *entry : entries)
      if (entry->place >= shard.size())
        throw FormatError(files->path(name) +
                          ": has fewer rows than the folder's index names; run tl-extract again");
    const std::int64_t used = distinct_rows(entries);
    if (used == shard.size()) continue;
    report.rows += shard.size() - used;
    report.bytes += bytes;
    obsolete.push_back(name);
    if (used == 0)
      ++report.shards;
    else
      report.bytes -= rewrite(*files, shard, next++, entries);
  }
  // The index goes over to the new files before the old ones go: a crash leaves only rows too many.
  if (!obsolete.empty()) write_index(*files, *index);
  for (const std::string &name : obsolete) files->remove(name);
  lock->finished();
  return report;
}

} // namespace tl::shard
