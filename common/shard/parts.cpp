#include "shard/parts.h"

#include "cli/log.h"

#include <algorithm>
#include <tuple>

namespace tl::shard {

namespace {

/// True if both are parts of the same division of the same data set.
bool fit_together(const PartOf &a, const PartOf &b) {
  return a.partition.count == b.partition.count && a.listing == b.listing && a.inputs == b.inputs &&
         a.shuffled == b.shuffled && a.seed == b.seed;
}

void check_same_features(const FolderFiles &folder, const FolderIndex &own, const FolderIndex &other) {
  std::string why = difference(other.meta, own.meta);
  if (why.empty() && other.meta.classes != own.meta.classes) why = "its classes are others";
  if (!why.empty())
    throw Error(folder.path() + ": part " + other.part->partition.text() + " does not belong to part " +
                own.part->partition.text() + ": " + why + "; extract all parts in the same way");
}

/// In the order in which one writer would have come to them.
void sort(std::vector<IndexEntry> &entries, const PartOf &part) {
  using Key = std::tuple<std::uint64_t, std::int64_t, std::size_t>;
  std::vector<Key> keys;
  for (const IndexEntry &entry : entries)
    keys.emplace_back(part.shuffled ? mix(part.seed, hash_text(entry.member.id)) : 0, entry.member.row,
                      keys.size());
  std::sort(keys.begin(), keys.end());
  std::vector<IndexEntry> sorted;
  for (const Key &key : keys) sorted.push_back(std::move(entries[std::get<2>(key)]));
  entries = std::move(sorted);
}

} // namespace

PartReport join_parts(FolderFiles &folder, const FolderIndex &own) {
  PartReport report;
  report.partition = own.part->partition;
  FolderIndex whole;
  whole.meta = own.meta;
  for (Partition part{1, report.partition.count}; part.index <= part.count; ++part.index) {
    std::optional<FolderIndex> index = part == report.partition ? own : read_index(folder, part);
    if (!index || !fit_together(*index->part, *own.part)) {
      report.missing.push_back(part.index);
      continue;
    }
    check_same_features(folder, own, *index);
    whole.skipped += index->skipped;
    std::move(index->entries.begin(), index->entries.end(), std::back_inserter(whole.entries));
  }
  report.records = static_cast<std::int64_t>(whole.entries.size());
  report.skipped = whole.skipped;
  if (!report.missing.empty()) return report;
  if (report.records + report.skipped != own.part->inputs)
    throw Error(folder.path() + ": the parts have " + std::to_string(report.records) +
                " records and skipped " + std::to_string(report.skipped) + " of " +
                std::to_string(own.part->inputs) + "; extract all parts again");
  sort(whole.entries, *own.part);
  write_index(folder, whole);
  return report;
}

void keep_part(FolderIndex &index, const Partition &part) {
  const auto others = [&](const IndexEntry &entry) { return !part.holds(entry.member.id); };
  index.entries.erase(std::remove_if(index.entries.begin(), index.entries.end(), others),
                      index.entries.end());
}

void remove_parts(FolderFiles &folder) {
  for (const std::string &name : folder.names("index-"))
    if (part_of_index(name)) folder.remove(name);
  for (const std::string &name : folder.names(std::string(kLockName) + "-"))
    if (part_of_lock(name)) folder.remove(name);
}

void refuse_missing_parts(const FolderFiles &folder) {
  std::optional<Partition> part; // the first that is missing, of the most parts
  for (const std::string &prefix : {std::string("index-"), std::string(kLockName) + "-"})
    for (const std::string &name : folder.names(prefix)) {
      const std::optional<Partition> one = prefix == "index-" ? part_of_index(name) : part_of_lock(name);
      if (one && (!part || one->count > part->count)) part = Partition{1, one->count};
    }
  if (!part) return;
  while (part->index < part->count && !folder.names(part_index_name(*part)).empty()) ++part->index;
  throw Error(folder.path() + ": part " + part->text() +
              " has not been extracted yet, or not from the data set as it is now; run tl-extract with "
              "--partition " +
              part->text());
}

} // namespace tl::shard
