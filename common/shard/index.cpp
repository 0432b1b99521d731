// index.safetensors: which rows of the folder's shards are the data set, and what changed.
#include "cli/log.h"
#include "shard/folder.h"
#include "shard/folder_files.h"
#include "shard/sealed.h"
#include "json/document.h"

#include <unordered_map>

namespace tl::shard {

namespace {
constexpr const char *kFormat = "tl-index";
constexpr const char *kPart = "part"; // the metadata of a part's index

template <class T, class Get> std::vector<T> column(const std::vector<IndexEntry> &entries, const Get &get) {
  std::vector<T> values;
  values.reserve(entries.size());
  for (const IndexEntry &entry : entries) values.push_back(get(entry));
  return values;
}

void check_entry(const FolderIndex &index, const IndexEntry &entry, const std::string &path) {
  const auto classes = static_cast<std::int64_t>(index.meta.classes.size());
  if (entry.member.label < -1 || entry.member.label >= classes || entry.member.row < 0 || entry.shard < 0 ||
      entry.place < 0)
    throw FormatError(path + ": record '" + cli::printable(entry.member.id) +
                      "' has an impossible label or place");
}

const std::string &class_of(const FolderIndex &index, const IndexEntry &entry) {
  static const std::string none;
  return entry.member.label < 0 ? none : index.meta.classes.at(static_cast<std::size_t>(entry.member.label));
}

std::string to_metadata(const PartOf &part) {
  return json::compact({{"index", part.partition.index},
                        {"count", part.partition.count},
                        {"order", part.shuffled ? "shuffled" : "listing"},
                        {"seed", part.seed},
                        {"listing", part.listing.hex()},
                        {"inputs", part.inputs}});
}

PartOf part_from_metadata(const std::string &text, const std::string &path) {
  const std::string place = path + ": metadata 'part'";
  const json::Value value = json::parse(text, place);
  PartOf part;
  try {
    part.partition = {value.at("index").get<std::int64_t>(), value.at("count").get<std::int64_t>()};
    part.shuffled = value.at("order").get<std::string>() == "shuffled";
    part.seed = value.at("seed").get<std::uint64_t>();
    part.listing = Digest::from_hex(value.at("listing").get<std::string>());
    part.inputs = value.at("inputs").get<std::int64_t>();
  } catch (const json::Value::exception &error) {
    throw FormatError(place + ": " + error.what());
  }
  return part;
}

/// Entries of the old index that no new one has claimed yet, by some key.
template <class Key> class Unclaimed {
public:
  void add(const Key &key, std::size_t position) { positions_[key].push_back(position); }
  /// A position that `claimed` does not have yet, or -1.
  std::int64_t find(const Key &key, const std::vector<bool> &claimed) {
    const auto found = positions_.find(key);
    if (found == positions_.end()) return -1;
    std::vector<std::size_t> &left = found->second;
    while (!left.empty() && claimed[left.back()]) left.pop_back();
    return left.empty() ? -1 : static_cast<std::int64_t>(left.back());
  }

private:
  std::unordered_map<Key, std::vector<std::size_t>> positions_;
};

FolderIndex parse_index(const Block &block, const std::string &path) {
  const SafeTensors file = parse_sealed(block, kFormat, path);
  FolderIndex index;
  index.meta = meta_from_metadata(file.metadata, path);
  index.skipped = required_count(file.metadata, "skipped", path);
  if (const auto part = file.metadata.find(kPart); part != file.metadata.end())
    index.part = part_from_metadata(part->second, path);
  const std::int64_t rows = required_count(file.metadata, "rows", path);
  if (rows > std::int64_t{1} << 40)
    throw FormatError(path + ": " + std::to_string(rows) + " rows are too many");
  const auto label = integers(file, "label", rows, path);
  const auto row = integers(file, "row", rows, path);
  const auto shard = integers(file, "shard", rows, path);
  const auto place = integers(file, "place", rows, path);
  const auto record = digests(file, "record", rows, path);
  auto id = strings(file, "id", rows, path);
  for (std::size_t i = 0; i < record.size(); ++i) {
    index.entries.push_back({{record[i], label[i], row[i], std::move(id[i])}, shard[i], place[i]});
    check_entry(index, index.entries.back(), path);
  }
  return index;
}

} // namespace

void write_index(FolderFiles &folder, const FolderIndex &index) {
  const std::vector<IndexEntry> &entries = index.entries;
  SafeTensors file;
  file.metadata = to_metadata(index.meta);
  file.metadata["rows"] = std::to_string(entries.size());
  file.metadata["skipped"] = std::to_string(index.skipped);
  const auto integers_of = [&](auto get) { return to_tensor(column<std::int64_t>(entries, get)); };
  file.tensors.push_back({"label", integers_of([](const IndexEntry &e) { return e.member.label; })});
  file.tensors.push_back({"row", integers_of([](const IndexEntry &e) { return e.member.row; })});
  file.tensors.push_back({"shard", integers_of([](const IndexEntry &e) { return e.shard; })});
  file.tensors.push_back({"place", integers_of([](const IndexEntry &e) { return e.place; })});
  file.tensors.push_back(
      {"record", to_tensor(column<Digest>(entries, [](const IndexEntry &e) { return e.member.record; }))});
  add_strings(file, "id", column<std::string>(entries, [](const IndexEntry &e) { return e.member.id; }));
  if (index.part) file.metadata[kPart] = to_metadata(*index.part);
  folder.write(index.part ? part_index_name(index.part->partition) : kIndexName, false,
               [&](const ByteSink &sink) { return write_sealed(std::move(file), kFormat, sink); });
}

std::optional<FolderIndex> read_index(const std::string &folder) { return read_index(*open_folder(folder)); }

std::optional<FolderIndex> read_index(const FolderFiles &folder) {
  const std::optional<Block> block = folder.read(kIndexName);
  if (!block) return std::nullopt;
  return parse_index(*block, folder.path(kIndexName));
}

std::optional<FolderIndex> read_index(const FolderFiles &folder, const Partition &part) {
  const std::string name = part_index_name(part);
  const std::optional<Block> block = folder.read(name);
  if (!block) return std::nullopt;
  FolderIndex index = parse_index(*block, folder.path(name));
  if (!index.part || !(index.part->partition == part))
    throw FormatError(folder.path(name) + ": is the index of another part");
  for (const IndexEntry &entry : index.entries)
    if (!part.holds(entry.member.id))
      throw FormatError(folder.path(name) + ": record '" + cli::printable(entry.member.id) +
                        "' belongs to another part");
  return index;
}

Changes compare(const FolderIndex &before, const FolderIndex &after) {
  Unclaimed<std::string> by_id;
  Unclaimed<Digest> by_record;
  std::vector<bool> claimed(before.entries.size());
  for (std::size_t i = before.entries.size(); i-- > 0;) { // so that the first is found first
    by_id.add(before.entries[i].member.id, i);
    by_record.add(before.entries[i].member.record, i);
  }
  Changes changes;
  std::vector<const IndexEntry *> moved; // ids that the old index does not have
  for (const IndexEntry &entry : after.entries) {
    const std::int64_t old = by_id.find(entry.member.id, claimed);
    if (old < 0) {
      moved.push_back(&entry);
      continue;
    }
    claimed[static_cast<std::size_t>(old)] = true;
    const IndexEntry &was = before.entries[static_cast<std::size_t>(old)];
    if (was.member.record != entry.member.record)
      ++changes.changed;
    else if (class_of(before, was) != class_of(after, entry))
      ++changes.relabelled;
    else
      ++changes.unchanged;
  }
  for (const IndexEntry *entry : moved) {
    const std::int64_t old = by_record.find(entry->member.record, claimed);
    if (old < 0) {
      ++changes.added;
      continue;
    }
    claimed[static_cast<std::size_t>(old)] = true;
    const bool same =
        class_of(before, before.entries[static_cast<std::size_t>(old)]) == class_of(after, *entry);
    ++(same ? changes.renamed : changes.relabelled);
  }
  for (const bool taken : claimed) changes.removed += !taken;
  return changes;
}

} // namespace tl::shard
