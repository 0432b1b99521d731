#include "cli/log.h"
#include "shard/folder.h"
#include "shard/folder_files.h"
#include "shard/parts.h"
#include "shard/row_buffer.h"

#include <algorithm>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <unordered_map>

namespace tl::shard {

namespace {

struct Place {
  std::int64_t shard, row;
};

/// A shard that is on its way.
struct Writing {
  std::int64_t rows;
  std::size_t memory;
  std::future<std::uint64_t> bytes; // of its file
};

} // namespace

struct FolderSink::State {
  std::string folder;
  SinkOptions options;
  std::shared_ptr<FolderFiles> files;
  std::unique_ptr<WriterLock> lock;
  RowBuffer buffer;
  std::int64_t shard_rows; // at most, in one shard
  std::optional<FolderIndex> before;
  FolderIndex index;
  bool broken = false;         // a shard could not be written: its rows are lost
  std::int64_t next_shard = 0; // the one that the buffer's rows will be in
  mutable std::mutex mutex;    // of `places`: has() is called from other threads
  std::unordered_map<Digest, Place> places;
  std::set<std::int64_t> trusted; // shards that are not read, because the index knows their rows
  SinkReport report;
  std::vector<std::string> notes;
  std::deque<Writing> writing; // last: it uses the others

  State(const std::string &path, ShardMeta meta, const SinkOptions &wanted)
      : folder(path), options(wanted), files(open_folder(path)),
        lock(options.part ? files->lock_part(options.part->partition) : files->lock()),
        buffer(std::move(meta)), shard_rows(1) {
    index.meta = buffer.meta();
    index.part = options.part;
    // Unknown for files: their shards are closed by what has come.
    const std::size_t fitting = options.bytes_per_shard / std::max<std::size_t>(index.meta.row_bytes(), 1);
    shard_rows = std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1,
                                          std::max<std::int64_t>(options.rows_per_shard, 1));
    open_index();
    open_shards();
    if (!lock->predecessor().empty())
      notes.push_back(folder + ": process " + cli::printable(lock->predecessor()) +
                      " did not finish here; its " + std::to_string(places.size()) +
                      " whole records are used");
    lock->started();
    if (options.part) {
      files->remove(part_index_name(options.part->partition)); // this part is not finished now
      while (next_shard % options.part->partition.count != options.part->partition.index - 1) ++next_shard;
    } else {
      remove_parts(*files);
    }
  }

  void open_shards() {
    std::map<std::string, std::string> damaged; // name, why
    const auto shards = files->shards();
    if (files->distant()) trust_index(shards);
    for (const auto &[number, bytes] : shards) {
      next_shard = std::max(next_shard, number + 1);
      check_interrupt();
      if (trusted.count(number)) continue;
      try {
        open_shard(number);
      } catch (const ForeignFile &) {
        throw;
      } catch (const FormatError &error) {
        damaged[shard_name(number)] = error.what();
      }
    }
    // Last, so that a folder that turns out to be another's is left as it was.
    for (const auto &[name, why] : damaged) {
      files->remove(name);
      notes.push_back(why + "; removed, its records are extracted again");
    }
  }

  /// A shard in a store is whole, and costs time to read: what the index says of its rows will do. Rows that
  /// the index no longer names are lost to later runs.
  void trust_index(const std::map<std::int64_t, std::uint64_t> &shards) {
    if (!before) return;
    for (const IndexEntry &entry : before->entries) {
      next_shard = std::max(next_shard, entry.shard + 1);
      if (!shards.count(entry.shard)) continue;
      trusted.insert(entry.shard);
      places.try_emplace(entry.member.record, Place{entry.shard, entry.place});
    }
  }

  void open_index() {
    try {
      before = read_index(*files);
    } catch (const ForeignFile &) {
      throw;
    } catch (const FormatError &error) {
      notes.push_back(std::string(error.what()) + "; it is made again");
    }
    if (!before || before->meta.key() == index.meta.key()) return;
    refuse_other_key(before->meta);
    before.reset();
    // Before its shards: an index must never name what is not there.
    files->remove(kIndexName);
  }

  void open_shard(std::int64_t number) {
    const std::string name = shard_name(number);
    const std::optional<Block> block = files->read(name);
    if (!block && options.part) return; // the writer of another part found it damaged
    if (!block) throw Error(files->path(name) + ": was removed meanwhile by another process");
    const bool trusted_file = options.trusted && options.trusted(files->path(name), number);
    const Shard shard =
        parse_stored_shard(*block, files->path(name), trusted_file ? Verify::no : Verify::yes);
    if (shard.meta.key() != index.meta.key()) {
      refuse_other_key(shard.meta);
      files->remove(name);
      return;
    }
    std::int64_t row = 0;
    for (const Digest &record : shard.records) places.try_emplace(record, Place{number, row++});
  }

  void refuse_other_key(const ShardMeta &have) const {
    if (options.force) return;
    throw Error(folder + ": holds other features: " + difference(have, index.meta) +
                "; give another folder, or replace them with --force");
  }

  void add_entry(Member member, const Place &place) {
    const auto classes = static_cast<std::int64_t>(index.meta.classes.size());
    if (member.label < -1 || member.label >= classes || member.row < 0)
      throw Error(folder + ": record '" + cli::printable(member.id) + "' has an impossible label or row");
    index.entries.push_back({std::move(member), place.shard, place.row});
  }

  /// Begins to write the rows that are held, while others come in.
  void flush() {
    if (broken) throw Error(folder + ": an earlier write failed");
    if (buffer.rows() == 0) return;
    const std::size_t memory = buffer.bytes(), most = kFullShardsWritten * options.bytes_per_shard;
    settle(kShardsWritten - 1, most - std::min(memory, most));
    broken = true;
    Shard shard = buffer.take();
    shard.number = next_shard;
    next_shard += options.part ? options.part->partition.count : 1;
    writing.push_back({shard.size(), memory, {}});
    writing.back().bytes = std::async(std::launch::async, [this, shard = std::move(shard)] {
      const auto content = [&](const ByteSink &sink) { return write_shard(shard, sink); };
      return files->write(shard_name(shard.number), true, content);
    });
    broken = false;
  }

  /// Waits until at most so many shards, of so many bytes in memory, are on their way. Throws what a write
  /// has thrown.
  void settle(std::size_t shards, std::size_t memory) {
    std::size_t held = 0;
    for (const Writing &shard : writing) held += shard.memory;
    while (writing.size() > shards || held > memory) {
      broken = true;
      report.bytes += writing.front().bytes.get();
      broken = false;
      report.written += writing.front().rows;
      ++report.shards;
      held -= writing.front().memory;
      writing.pop_front();
    }
  }
};

FolderSink::FolderSink(const std::string &folder, ShardMeta meta, const SinkOptions &options) {
  meta.check();
  state_ = std::make_unique<State>(folder, std::move(meta), options);
}

FolderSink::~FolderSink() = default;

bool FolderSink::has(const Digest &record) const {
  std::lock_guard<std::mutex> guard(state_->mutex);
  return state_->places.count(record) != 0;
}

void FolderSink::keep(const Member &member) {
  Place place{};
  {
    std::lock_guard<std::mutex> guard(state_->mutex);
    const auto found = state_->places.find(member.record);
    if (found == state_->places.end())
      throw Error(state_->folder + ": has no features of record '" + cli::printable(member.id) + "'");
    place = found->second;
  }
  state_->add_entry(member, place);
}

void FolderSink::append(const Shard &rows) {
  State &state = *state_;
  check_rows(state.buffer.meta(), rows);
  std::int64_t begin = 0; // rows [begin, i) are new and not yet in the buffer
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<std::size_t>(i);
    const Member member{rows.records[row], rows.labels[row], rows.rows[row], rows.ids[row]};
    Place place{state.next_shard, state.buffer.rows() + i - begin};
    bool is_new = false;
    {
      std::lock_guard<std::mutex> guard(state.mutex);
      const auto [found, added] = state.places.try_emplace(member.record, place);
      is_new = added;
      place = found->second;
    }
    state.add_entry(member, place);
    if (!is_new) { // the same content twice, both on their way at once: one copy is enough
      state.buffer.add(rows, begin, i);
      begin = i + 1;
    } else if (place.row + 1 >= state.shard_rows) {
      state.buffer.add(rows, begin, i + 1);
      begin = i + 1;
      state.flush();
    }
  }
  state.buffer.add(rows, begin, rows.size());
  if (state.buffer.bytes() >= state.options.bytes_per_shard) state.flush();
}

SinkReport FolderSink::finish(std::int64_t skipped) {
  State &state = *state_;
  state.flush();
  state.settle(0, 0);
  state.index.skipped = skipped;
  write_index(*state.files, state.index);
  if (state.options.part) {
    if (state.before) keep_part(*state.before, state.options.part->partition);
    state.report.part = join_parts(*state.files, state.index);
  }
  state.lock->finished();
  state.report.records = static_cast<std::int64_t>(state.index.entries.size());
  state.report.skipped = skipped;
  state.report.changes = compare(state.before.value_or(FolderIndex{}), state.index);
  return state.report;
}

void FolderSink::fail(const std::string &) noexcept {
  try {
    state_->flush();
    state_->settle(0, 0);
  } catch (...) { // those rows are computed again; the caller already has an error to report
  }
}

const std::vector<std::string> &FolderSink::notes() const { return state_->notes; }

} // namespace tl::shard
