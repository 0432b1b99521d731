#include "cli/error.h"
#include "cli/log.h"
#include "train/sources.h"

namespace tl::train {

namespace {

class DatasetRecords : public RecordSource {
public:
  DatasetRecords(std::shared_ptr<const data::Dataset> dataset, const data::Preprocess &preprocess,
                 std::uint64_t seed, const SourceOptions &options)
      : dataset_(std::move(dataset)), preprocess_(preprocess), options_(options) {
    load(options.order ? data::content_order(*dataset_, *options.order, options.threads, options.hashes)
                       : data::record_order(*dataset_, true, seed),
         options.keep_going ? data::OnError::skip : data::OnError::fail);
  }

  const std::vector<std::string> &classes() const override { return dataset_->classes(); }
  std::optional<std::int64_t> expected() const override {
    return static_cast<std::int64_t>(dataset_->records().size());
  }
  const std::vector<std::string> &skipped() const override { return skipped_; }
  std::int64_t skipped_before() const override { return 0; }
  bool cheap() const override { return false; }

  std::optional<Chunk> next(std::int64_t limit) override {
    if (offset_ == static_cast<std::int64_t>(batch_.size()) && !fetch()) return std::nullopt;
    const std::int64_t end = std::min(offset_ + limit, static_cast<std::int64_t>(batch_.size()));
    Chunk chunk;
    for (std::int64_t row = offset_; row < end; ++row) {
      const auto i = static_cast<std::size_t>(row);
      chunk.records.push_back({batch_.hashes[i], batch_.labels[i], batch_.ids[i]});
      if (!arrived_) index_.push_back(batch_.index[i]);
    }
    chunk.values.push_back(rows(offset_, end));
    offset_ = end;
    return chunk;
  }

  void start(std::vector<std::int64_t> positions) override {
    std::vector<std::uint32_t> order;
    for (const std::int64_t position : positions) order.push_back(index_[static_cast<std::size_t>(position)]);
    load(std::move(order), data::OnError::fail);
  }

private:
  void load(std::vector<std::uint32_t> order, data::OnError on_error) {
    data::LoaderOptions loading;
    loading.threads = options_.threads;
    loading.on_error = on_error;
    batch_ = {};
    offset_ = 0;
    loader_ = std::make_unique<data::Loader>(*dataset_, std::move(order), preprocess_, loading);
  }

  bool fetch() {
    std::optional<data::Batch> batch = loader_->next();
    batch_ = {};
    offset_ = 0;
    if (!batch) {
      if (!arrived_)
        for (const data::RecordNote &note : loader_->skipped())
          skipped_.push_back(cli::printable(note.id) + ": " + note.reason);
      arrived_ = true;
      return false;
    }
    batch_ = std::move(*batch);
    return true;
  }

  /// Rows [begin, end) of the batch, sharing its memory.
  Tensor rows(std::int64_t begin, std::int64_t end) const {
    Tensor part = batch_.input;
    const std::size_t row_bytes = part.bytes() / batch_.size();
    part.shape[0] = end - begin;
    part.data = {batch_.input.data, batch_.input.data.get() + static_cast<std::size_t>(begin) * row_bytes};
    return part;
  }

  std::shared_ptr<const data::Dataset> dataset_;
  data::Preprocess preprocess_;
  SourceOptions options_;
  std::unique_ptr<data::Loader> loader_;
  data::Batch batch_;
  std::int64_t offset_ = 0;
  bool arrived_ = false;
  std::vector<std::uint32_t> index_; // for each position, its record in the dataset
  std::vector<std::string> skipped_;
};

} // namespace

std::unique_ptr<RecordSource> dataset_source(data::Dataset dataset, const data::Preprocess &preprocess,
                                             std::uint64_t seed, const SourceOptions &options) {
  return dataset_source(std::make_shared<const data::Dataset>(std::move(dataset)), preprocess, seed, options);
}

std::unique_ptr<RecordSource> dataset_source(std::shared_ptr<const data::Dataset> dataset,
                                             const data::Preprocess &preprocess, std::uint64_t seed,
                                             const SourceOptions &options) {
  return std::make_unique<DatasetRecords>(std::move(dataset), preprocess, seed, options);
}

} // namespace tl::train
