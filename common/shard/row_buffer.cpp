#include "shard/row_buffer.h"

namespace tl::shard {

void RowBuffer::add(const Shard &batch, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  batches_.push_back(slice(meta_, batch, begin, end));
  rows_ += end - begin;
  bytes_ += batches_.back().feature_bytes();
}

Shard RowBuffer::take() {
  std::vector<RowRef> refs;
  refs.reserve(static_cast<std::size_t>(rows_));
  for (const Shard &batch : batches_)
    for (std::int64_t row = 0; row < batch.size(); ++row) refs.push_back({&batch, row});
  Shard shard = gather(meta_, refs);
  batches_.clear();
  rows_ = 0;
  bytes_ = 0;
  return shard;
}

} // namespace tl::shard
