// Rows on their way into a shard: batches come in, whole shards go out.
#pragma once

#include "shard/shard.h"

#include <vector>

namespace tl::shard {

class RowBuffer {
public:
  explicit RowBuffer(ShardMeta meta) : meta_(std::move(meta)) {}

  /// Takes rows [begin, end) of `batch`, whose tensors are shared until take().
  void add(const Shard &batch, std::int64_t begin, std::int64_t end);
  /// All rows as one shard, copied together; the buffer is empty then.
  Shard take();

  const ShardMeta &meta() const { return meta_; }
  std::int64_t rows() const { return rows_; }
  std::size_t bytes() const { return bytes_; }

private:
  ShardMeta meta_;
  std::vector<Shard> batches_;
  std::int64_t rows_ = 0;
  std::size_t bytes_ = 0;
};

} // namespace tl::shard
