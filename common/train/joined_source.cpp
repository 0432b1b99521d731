#include "cli/error.h"
#include "shard/folder.h"
#include "train/decoder.h"
#include "train/sources.h"

#include <map>

namespace tl::train {

namespace {

/// One more folder of values.
class Folder {
public:
  Folder(const std::string &path, const data::Preprocess &preprocess)
      : source_(path), decoder_(source_.meta(), preprocess, 1) {
    if (source_.meta().payload != shard::Payload::values)
      throw Error("internal error: " + path + " holds records, not values");
    const std::vector<shard::IndexEntry> &entries = source_.entries();
    for (std::size_t i = 0; i < entries.size(); ++i)
      places_.emplace(key(entries[i].member.record, entries[i].member.id), static_cast<std::int64_t>(i));
  }

  /// Of a record in the folder's index; -1: not there.
  std::int64_t place(const RecordInfo &record) const {
    const auto found = places_.find(key(record.hash, record.id));
    return found == places_.end() ? -1 : found->second;
  }

  std::vector<Tensor> read(const std::vector<std::int64_t> &places) {
    return decoder_.decode(source_.read(places)).values;
  }

  bool cheap() const { return decoder_.passes(); }
  const std::vector<std::string> &classes() const { return source_.meta().classes; }

private:
  using Key = std::pair<Digest, Digest>;
  static Key key(const Digest &record, const std::string &id) { return {record, hash_text(id)}; }

  shard::FolderSource source_;
  Decoder decoder_;
  std::map<Key, std::int64_t> places_;
};

class JoinedRecords : public RecordSource {
public:
  JoinedRecords(std::unique_ptr<RecordSource> first, const std::vector<std::string> &folders,
                const data::Preprocess &preprocess)
      : first_(std::move(first)) {
    for (const std::string &path : folders) {
      folders_.push_back(std::make_unique<Folder>(path, preprocess));
      if (folders_.back()->classes() != first_->classes())
        throw FormatError(path + ": its classes are not those of the other features; extract it again");
    }
  }

  const std::vector<std::string> &classes() const override { return first_->classes(); }
  std::optional<std::int64_t> expected() const override { return first_->expected(); }
  const std::vector<std::string> &skipped() const override { return first_->skipped(); }
  std::int64_t skipped_before() const override { return first_->skipped_before(); }
  bool cheap() const override {
    bool all = first_->cheap();
    for (const auto &folder : folders_) all = all && folder->cheap();
    return all;
  }

  void start(std::vector<std::int64_t> positions) override {
    for (std::int64_t &position : positions) position = kept_[static_cast<std::size_t>(position)];
    first_->start(std::move(positions));
  }

  std::optional<Chunk> next(std::int64_t limit) override {
    while (std::optional<Chunk> chunk = first_->next(limit)) {
      const std::vector<std::int64_t> rows = present(*chunk);
      if (rows.empty()) continue;
      if (rows.size() < chunk->records.size()) narrow(*chunk, rows);
      for (const auto &folder : folders_) {
        std::vector<std::int64_t> places;
        for (const RecordInfo &record : chunk->records) places.push_back(folder->place(record));
        for (Tensor &value : folder->read(places)) chunk->values.push_back(std::move(value));
      }
      return chunk;
    }
    arrived_ = true;
    return std::nullopt;
  }

private:
  /// Rows that every folder has; those of the arrival get their positions.
  std::vector<std::int64_t> present(const Chunk &chunk) {
    std::vector<std::int64_t> rows;
    for (std::size_t i = 0; i < chunk.records.size(); ++i) {
      bool everywhere = true;
      for (const auto &folder : folders_) everywhere = everywhere && folder->place(chunk.records[i]) >= 0;
      if (everywhere) rows.push_back(static_cast<std::int64_t>(i));
      if (arrived_) continue;
      if (everywhere) kept_.push_back(delivered_);
      ++delivered_;
    }
    return rows;
  }

  static void narrow(Chunk &chunk, const std::vector<std::int64_t> &rows) {
    std::vector<RecordInfo> records;
    for (const std::int64_t row : rows) records.push_back(chunk.records[static_cast<std::size_t>(row)]);
    chunk.records = std::move(records);
    for (Tensor &value : chunk.values) value = take_rows(value, rows);
  }

  std::unique_ptr<RecordSource> first_;
  std::vector<std::unique_ptr<Folder>> folders_;
  bool arrived_ = false;
  std::int64_t delivered_ = 0;     // by the first source
  std::vector<std::int64_t> kept_; // for each position, its position in the first source
};

} // namespace

std::unique_ptr<RecordSource> joined_source(std::unique_ptr<RecordSource> first,
                                            const std::vector<std::string> &folders,
                                            const data::Preprocess &preprocess) {
  if (folders.empty()) return first;
  return std::make_unique<JoinedRecords>(std::move(first), folders, preprocess);
}

} // namespace tl::train
