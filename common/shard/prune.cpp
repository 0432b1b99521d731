#include "shard/folder.h"
#include "shard/folder_files.h"

#include <cerrno>
#include <map>
#include <sys/stat.h>

namespace tl::shard {

namespace {

std::uint64_t file_bytes(const std::string &path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) throw SystemError("stat " + path, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

/// Writes the rows of `shard` that `entries` name as a new shard, points the entries to it, and
/// returns its bytes.
std::uint64_t rewrite(const std::string &folder, const Shard &shard, std::int64_t number,
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
  cli::AtomicFile out(shard_path(folder, number));
  const auto bytes = write_shard(kept, [&](const void *data, std::size_t size) { out.write(data, size); });
  out.commit();
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
  FolderLock lock(folder);
  remove_leftovers(folder);
  std::optional<FolderIndex> index = read_index(folder);
  if (!index)
    throw Error(folder +
                ": has no index, so nothing says which rows to keep; finish an extraction into it first");
  std::map<std::int64_t, std::vector<IndexEntry *>> wanted;
  for (IndexEntry &entry : index->entries) wanted[entry.shard].push_back(&entry);
  const auto files = list_shards(folder);
  std::int64_t next = files.empty() ? 0 : files.rbegin()->first + 1;
  PruneReport report;
  std::vector<std::string> obsolete;
  for (const auto &[number, file] : files) {
    const Shard shard = read_stored_shard(file);
    const std::vector<IndexEntry *> &entries = wanted[number];
    for (const IndexEntry *entry : entries)
      if (entry->place >= shard.size())
        throw FormatError(file + ": has fewer rows than the folder's index names; run tl-extract again");
    const std::int64_t used = distinct_rows(entries);
    if (used == shard.size()) continue;
    report.rows += shard.size() - used;
    report.bytes += file_bytes(file);
    obsolete.push_back(file);
    if (used == 0)
      ++report.shards;
    else
      report.bytes -= rewrite(folder, shard, next++, entries);
  }
  // The index goes over to the new files before the old ones go: a crash leaves only rows too many.
  if (!obsolete.empty()) write_index(folder, *index);
  for (const std::string &file : obsolete) remove_file(file);
  lock.finished();
  return report;
}

} // namespace tl::shard
