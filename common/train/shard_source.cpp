#include "cli/error.h"
#include "runtime/clock.h"
#include "shard/folder.h"
#include "train/decoder.h"
#include "train/sources.h"

#include <algorithm>
#include <tuple>

namespace tl::train {

namespace {

constexpr std::int64_t kOrderedRows = 256; // read at a time when a folder is not read in its own order

class ShardRecords : public RecordSource {
public:
  ShardRecords(std::unique_ptr<shard::ShardSource> shards, const data::Preprocess &preprocess,
               const SourceOptions &options)
      : source_(std::move(shards)), folder_(dynamic_cast<shard::FolderSource *>(source_.get())),
        decoder_(source_->meta(), preprocess, options.threads), options_(options) {
    if (folder_) {
      if (options.order) order_by(*options.order);
      return;
    }
    if (options.order) throw UsageError("a stream arrives in its own order; --by-content needs a folder");
    shard::SinkOptions sink;
    sink.force = options.force;
    sink_ = std::make_unique<shard::FolderSink>(options.keep, source_->meta(), sink);
  }

  const std::vector<std::string> &classes() const override { return source_->meta().classes; }
  std::optional<std::int64_t> expected() const override { return source_->expected(); }
  const std::vector<std::string> &skipped() const override { return skipped_; }
  std::int64_t skipped_before() const override { return skipped_before_; }
  bool cheap() const override { return decoder_.passes(); }
  std::optional<Arrival> arrival() const override { return arrival_; }

  std::optional<Chunk> next(std::int64_t limit) override { return arrived_ ? read(limit) : arrive(limit); }

  void start(std::vector<std::int64_t> positions) override {
    positions_ = std::move(positions);
    done_ = 0;
  }

private:
  std::optional<Chunk> arrive(std::int64_t limit) {
    for (;;) {
      check_interrupt();
      if (offset_ == current_.size() && !fetch()) return std::nullopt;
      const std::int64_t end = std::min(offset_ + limit, current_.size());
      const shard::Shard part = shard::slice(current_, offset_, end);
      const Stopwatch decoding;
      Decoder::Result result = decoder_.decode(part);
      handling_ += decoding.seconds();
      if (!result.failures.empty() && !options_.keep_going)
        throw Error(result.failures.front() + "; --keep-going leaves such records out");
      skipped_.insert(skipped_.end(), result.failures.begin(), result.failures.end());
      for (const std::int64_t row : result.good) entries_.push_back(entry_at(entry_ + row));
      entry_ += part.size();
      offset_ = end;
      if (!result.good.empty()) return chunk(part, std::move(result));
    }
  }

  static Chunk chunk(const shard::Shard &shard, Decoder::Result result) {
    Chunk made;
    for (const std::int64_t row : result.good) {
      const auto i = static_cast<std::size_t>(row);
      made.records.push_back({shard.records[i], shard.labels[i], shard.ids[i]});
    }
    made.values = std::move(result.values);
    return made;
  }

  void order_by(std::uint64_t seed) {
    const std::vector<shard::IndexEntry> &entries = folder_->entries();
    std::vector<std::pair<std::uint64_t, std::int64_t>> ranks;
    for (const shard::IndexEntry &entry : entries)
      ranks.emplace_back(mix(seed, entry.member.record), static_cast<std::int64_t>(ranks.size()));
    std::sort(ranks.begin(), ranks.end(), [&](const auto &a, const auto &b) {
      if (a.first != b.first) return a.first < b.first;
      // Records of equal content: a name decides only between those that are equal in everything.
      const shard::Member &first = entries[static_cast<std::size_t>(a.second)].member;
      const shard::Member &second = entries[static_cast<std::size_t>(b.second)].member;
      return std::tie(first.label, first.id) < std::tie(second.label, second.id);
    });
    for (const auto &[rank, entry] : ranks) order_.push_back(entry);
  }

  /// Place in the folder's index of what arrives in this place.
  std::int64_t entry_at(std::int64_t arrival) const {
    return order_.empty() ? arrival : order_[static_cast<std::size_t>(arrival)];
  }

  std::optional<shard::Shard> next_shard() {
    if (order_.empty()) return source_->next();
    const auto begin = order_.begin() + entry_;
    const auto rows = std::min<std::int64_t>(kOrderedRows, order_.end() - begin);
    if (rows == 0) return std::nullopt;
    return folder_->read({begin, begin + rows});
  }

  bool fetch() {
    std::optional<shard::Shard> shard = next_shard();
    offset_ = 0;
    current_ = {};
    if (!shard) {
      finish();
      return false;
    }
    current_ = std::move(*shard);
    const Stopwatch keeping;
    if (sink_) keep(current_);
    handling_ += keeping.seconds();
    return true;
  }

  /// Rows that an earlier, interrupted run has kept are only listed again.
  void keep(const shard::Shard &shard) {
    std::int64_t begin = 0;
    const auto flush = [&](std::int64_t end) {
      if (begin < end) sink_->append(shard::slice(shard, begin, end));
      begin = end;
    };
    for (std::int64_t row = 0; row < shard.size(); ++row) {
      const auto i = static_cast<std::size_t>(row);
      // Twice in one shard: the sink must have seen the first before it is asked for the second.
      if (!sink_->has(shard.records[i])) {
        if (std::find(shard.records.begin() + begin, shard.records.begin() + row, shard.records[i]) ==
            shard.records.begin() + row)
          continue;
      }
      flush(row);
      sink_->keep({shard.records[i], shard.labels[i], shard.rows[i], shard.ids[i]});
      begin = row + 1;
    }
    flush(shard.size());
  }

  void finish() {
    arrived_ = true;
    skipped_before_ = source_->skipped();
    if (const auto delivery = source_->delivery()) arrival_ = {*delivery, handling_ + delivery->parsing};
    if (!sink_) return;
    sink_->finish(skipped_before_);
    sink_.reset();
    source_ = std::make_unique<shard::FolderSource>(options_.keep);
    folder_ = static_cast<shard::FolderSource *>(source_.get());
  }

  std::optional<Chunk> read(std::int64_t limit) {
    const auto rows = std::min<std::size_t>(static_cast<std::size_t>(limit), positions_.size() - done_);
    if (rows == 0) return std::nullopt;
    std::vector<std::int64_t> wanted;
    for (std::size_t i = done_; i < done_ + rows; ++i)
      wanted.push_back(entries_[static_cast<std::size_t>(positions_[i])]);
    done_ += rows;
    const shard::Shard shard = folder_->read(wanted);
    Decoder::Result result = decoder_.decode(shard);
    if (!result.failures.empty()) throw Error(result.failures.front()); // it was good when it arrived
    return chunk(shard, std::move(result));
  }

  std::unique_ptr<shard::ShardSource> source_;
  shard::FolderSource *folder_; // source_, once records can be asked for by place
  std::unique_ptr<shard::FolderSink> sink_;
  Decoder decoder_;
  SourceOptions options_;
  std::vector<std::string> skipped_;
  std::int64_t skipped_before_ = 0;
  std::optional<Arrival> arrival_;
  double handling_ = 0;

  shard::Shard current_; // arriving
  std::int64_t offset_ = 0, entry_ = 0;
  bool arrived_ = false;
  std::vector<std::int64_t> order_;   // of the arrival, places in the folder's index; empty: its own
  std::vector<std::int64_t> entries_; // for each position, its place in the folder's index

  std::vector<std::int64_t> positions_; // of a later pass
  std::size_t done_ = 0;
};

} // namespace

std::unique_ptr<RecordSource> shard_source(std::unique_ptr<shard::ShardSource> shards,
                                           const data::Preprocess &preprocess, const SourceOptions &options) {
  return std::make_unique<ShardRecords>(std::move(shards), preprocess, options);
}

} // namespace tl::train
