#include "cli/log.h"
#include "shard/coding.h"
#include "shard/folder.h"
#include "shard/folder_files.h"
#include "shard/parts.h"

#include <algorithm>
#include <deque>
#include <future>
#include <unordered_map>
#include <unordered_set>

namespace tl::shard {

namespace {
// A run of at least this many rows that lie side by side is handed on without a copy; shorter ones
// are copied together up to so many rows.
constexpr std::int64_t kRun = 64;
constexpr std::int64_t kGathered = 256;
// Shards from a store that are kept in memory.
constexpr std::size_t kResident = 4;
} // namespace

struct FolderSource::State {
  std::string folder;
  FolderIndex index;
  std::size_t position = 0;
  std::int64_t given = 0; // shards handed out
  /// Mapped when the source is opened, so that nothing that happens to the folder later matters;
  /// parsed, and its checksum verified, when the first of its rows is asked for, and the next one in the
  /// background. A compressed one stays compressed: rows are decompressed each time that they are read. From
  /// a store, a shard is fetched when it is needed, likewise, and the oldest is forgotten.
  struct File {
    std::string path;
    Block block;
    std::shared_ptr<const Shard> shard;
  };
  std::shared_ptr<FolderFiles> storage;
  std::unordered_map<std::int64_t, File> files;
  std::deque<std::int64_t> resident; // of a store, in the order of their arrival
  std::future<Shard> coming;
  std::int64_t coming_shard = -1;

  explicit State(const std::string &path) : folder(path), storage(open_folder(path)) {
    std::optional<FolderIndex> found = read_index(*storage);
    if (found) {
      index = std::move(*found);
      open_indexed();
    } else {
      const auto shards = storage->shards();
      const std::string writer = storage->unfinished_writer();
      refuse_missing_parts(*storage);
      if (!writer.empty())
        throw Error(folder + ": the extraction into it by process " + cli::printable(writer) +
                    " has not finished; wait for it, or run tl-extract again");
      if (shards.empty()) throw Error(folder + ": holds no shards");
      open_all(shards);
    }
    index.meta.zstd = false; // of what is handed out; shards may be of either kind
  }

  void open_indexed() {
    for (const IndexEntry &entry : index.entries) {
      if (files.count(entry.shard)) continue;
      File &file = files[entry.shard];
      file.path = storage->path(shard_name(entry.shard));
      if (!storage->distant()) file.block = fetch(entry.shard);
    }
  }

  Block fetch(std::int64_t number) const {
    std::optional<Block> block = storage->read(shard_name(number));
    if (!block)
      throw FormatError(folder + ": its index names " + shard_name(number) +
                        ", which is missing; run tl-extract again");
    return std::move(*block);
  }

  /// Without an index, every row of every shard is the data set; the same content counts once.
  void open_all(const std::map<std::int64_t, std::uint64_t> &shards) {
    std::unordered_set<Digest> seen;
    std::optional<ShardMeta> first;
    for (const auto &[number, bytes] : shards) {
      const std::string name = storage->path(shard_name(number));
      Shard shard = parse_stored_shard(fetch(number), name);
      if (!first) index.meta = *(first = shard.meta);
      const std::string other = difference(shard.meta, *first);
      if (!other.empty() || shard.meta.classes != first->classes)
        throw FormatError(name + ": does not belong with the shards before it: " +
                          (other.empty() ? "its classes are others" : other) +
                          "; there is no index to tell them apart");
      for (std::size_t i = 0; i < shard.records.size(); ++i)
        if (seen.insert(shard.records[i]).second)
          index.entries.push_back({{shard.records[i], shard.labels[i], shard.rows[i], shard.ids[i]},
                                   number,
                                   static_cast<std::int64_t>(i)});
      index.skipped += shard.skipped;
      files[number].path = name;
      keep(number, std::move(shard));
    }
  }

  void keep(std::int64_t number, Shard shard) {
    File &file = files.at(number);
    shard.ids = {}; // the index has them
    shard.ids.resize(shard.records.size());
    file.shard = std::make_shared<const Shard>(std::move(shard));
    file.block = {};
    if (!storage->distant()) return;
    resident.push_back(number);
    if (resident.size() <= kResident) return;
    files.at(resident.front()).shard = nullptr;
    resident.pop_front();
  }

  Shard load(std::int64_t number) const {
    const File &file = files.at(number);
    if (!storage->distant()) read_ahead(file.block);
    Shard shard = parse_stored_shard(storage->distant() ? fetch(number) : file.block, file.path);
    const std::string other = difference(shard.meta, index.meta);
    if (!other.empty()) throw FormatError(file.path + ": does not belong to the folder's index: " + other);
    return shard;
  }

  /// The shard, and the next that is needed is on its way.
  Shard arrive(std::int64_t number) {
    const bool asked = coming_shard == number;
    if (asked) coming_shard = -1;
    Shard shard = asked ? coming.get() : load(number);
    for (std::size_t i = position; i < index.entries.size() && coming_shard < 0; ++i) {
      const std::int64_t next = index.entries[i].shard;
      if (next == number || files.at(next).shard) continue;
      coming_shard = next;
      coming = std::async(std::launch::async, [this, next] { return load(next); });
    }
    return shard;
  }

  std::shared_ptr<const Shard> shard_of(const IndexEntry &entry) {
    File &file = files.at(entry.shard);
    if (!file.shard) keep(entry.shard, arrive(entry.shard));
    const auto place = static_cast<std::size_t>(entry.place);
    if (place >= file.shard->records.size() || file.shard->records[place] != entry.member.record)
      throw FormatError(file.path + ": row " + std::to_string(entry.place) + " is not the record '" +
                        cli::printable(entry.member.id) + "' that the index names; run tl-extract again");
    return file.shard;
  }

  /// Entries from `begin` on whose rows lie side by side in one shard.
  std::size_t run_end(std::size_t begin) const {
    const std::vector<IndexEntry> &entries = index.entries;
    std::size_t end = begin + 1;
    while (end < entries.size() && entries[end].shard == entries[begin].shard &&
           entries[end].place == entries[end - 1].place + 1)
      ++end;
    return end;
  }

  /// Puts the index's account of the rows in place of the shard's.
  void describe(Shard &shard, const std::vector<std::int64_t> &positions) const {
    shard.meta = index.meta;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const Member &member = index.entries[static_cast<std::size_t>(positions[i])].member;
      shard.records[i] = member.record;
      shard.labels[i] = member.label;
      shard.rows[i] = member.row;
      shard.ids[i] = member.id;
    }
  }

  Shard read(const std::vector<std::int64_t> &positions) {
    std::vector<RowRef> rows;
    std::vector<std::shared_ptr<const Shard>> shards; // that rows point into
    for (const std::int64_t at : positions) {
      const IndexEntry &entry = index.entries.at(static_cast<std::size_t>(at));
      shards.push_back(shard_of(entry));
      rows.push_back({shards.back().get(), entry.place});
    }
    Shard shard = with_place([&] { return gather(index.meta, rows); });
    describe(shard, positions);
    return shard;
  }

  template <class Read> Shard with_place(const Read &read_rows) const {
    try {
      return read_rows();
    } catch (const FormatError &error) {
      throw FormatError(folder + ": " + error.what());
    }
  }

  Shard read_range(std::size_t begin, std::size_t end, bool side_by_side) {
    std::vector<std::int64_t> positions;
    for (std::size_t i = begin; i < end; ++i) positions.push_back(static_cast<std::int64_t>(i));
    if (!side_by_side) return read(positions);
    std::shared_ptr<const Shard> whole;
    for (std::size_t i = begin; i < end; ++i) whole = shard_of(index.entries[i]);
    const std::int64_t first = index.entries[begin].place;
    const auto rows = static_cast<std::int64_t>(end - begin);
    Shard shard = with_place([&] { return unpack(slice(*whole, first, first + rows)); });
    describe(shard, positions);
    return shard;
  }

  Shard next_rows() {
    const auto long_run = [&](std::size_t begin, std::size_t end) {
      return static_cast<std::int64_t>(end - begin) >= kRun;
    };
    const std::size_t begin = position;
    position = run_end(begin);
    bool side_by_side = true;
    while (!long_run(begin, position) && position < index.entries.size()) {
      const std::size_t further = run_end(position);
      if (long_run(position, further)) break;
      side_by_side = false;
      position = std::min(further, begin + kGathered);
      if (position == begin + kGathered) break;
    }
    Shard shard = read_range(begin, position, side_by_side);
    shard.number = given++;
    return shard;
  }
};

FolderSource::FolderSource(const std::string &folder) : state_(std::make_unique<State>(folder)) {}
FolderSource::~FolderSource() = default;

const ShardMeta &FolderSource::meta() const { return state_->index.meta; }
std::optional<std::int64_t> FolderSource::expected() const {
  return static_cast<std::int64_t>(state_->index.entries.size());
}
std::int64_t FolderSource::skipped() const { return state_->index.skipped; }

std::optional<Shard> FolderSource::next() {
  if (state_->position >= state_->index.entries.size()) return std::nullopt;
  return state_->next_rows();
}

const std::vector<IndexEntry> &FolderSource::entries() const { return state_->index.entries; }
Shard FolderSource::read(const std::vector<std::int64_t> &positions) { return state_->read(positions); }
void FolderSource::rewind() {
  state_->position = 0;
  state_->given = 0;
}

} // namespace tl::shard
