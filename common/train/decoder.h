// Private to common/train: rows of shards -> the values that the network takes.
#pragma once

#include "data/prepare.h"
#include "shard/shard.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tl::train {

class Decoder {
public:
  Decoder(shard::ShardMeta meta, const data::Preprocess &preprocess, std::size_t threads);

  struct Result {
    std::vector<Tensor> values;        // of the good rows
    std::vector<std::int64_t> good;    // their places in the shard
    std::vector<std::string> failures; // "id: reason" of the others
  };
  Result decode(const shard::Shard &shard);

  /// True if values pass as they are.
  bool passes() const { return meta_.payload == shard::Payload::values && meta_.codec == "fp32"; }

private:
  Result prepare(const shard::Shard &shard);
  data::Encoded record(const shard::Shard &shard, std::int64_t row) const;

  shard::ShardMeta meta_;
  data::Preprocess preprocess_;
  std::vector<data::Preparer> preparers_; // one for each thread
};

/// These rows of a tensor {n, shape...}, copied.
Tensor take_rows(const Tensor &tensor, const std::vector<std::int64_t> &rows);

/// One tensor {n, shape...} of n tensors of one shape. Throws Error naming the first of another shape.
Tensor stack(const std::vector<Tensor> &rows, const std::vector<std::string> &ids);

} // namespace tl::train
