#include "train/decoder.h"

#include "cli/error.h"
#include "cli/log.h"
#include "shard/coding.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>

namespace tl::train {

Decoder::Decoder(shard::ShardMeta meta, const data::Preprocess &preprocess, std::size_t threads)
    : meta_(std::move(meta)), preprocess_(preprocess) {
  if (meta_.payload == shard::Payload::values) return;
  const std::size_t count = threads ? threads : std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t i = 0; i < count; ++i) preparers_.emplace_back(preprocess_);
}

Decoder::Result Decoder::decode(const shard::Shard &shard) {
  if (meta_.payload != shard::Payload::values) return prepare(shard);
  Result result;
  result.values = shard::decode(meta_, shard);
  if (meta_.codec == name_of(codec::Number::u8))
    for (Tensor &value : result.values) value = data::normalise(preprocess_, value);
  result.good.resize(static_cast<std::size_t>(shard.size()));
  std::iota(result.good.begin(), result.good.end(), 0);
  return result;
}

data::Encoded Decoder::record(const shard::Shard &shard, std::int64_t row) const {
  data::Encoded record;
  record.hash = shard.records[static_cast<std::size_t>(row)];
  const bool file = meta_.payload == shard::Payload::files;
  const Tensor &all = file ? shard.files : shard.values[0];
  record.is_file = file;
  record.content.dtype = all.dtype;
  std::int64_t offset = 0;
  if (file) {
    offset = shard.file_offset[static_cast<std::size_t>(row)];
    record.content.shape = {shard.file_offset[static_cast<std::size_t>(row) + 1] - offset};
  } else {
    record.content.shape.assign(all.shape.begin() + 1, all.shape.end());
    offset = row * static_cast<std::int64_t>(record.content.bytes());
  }
  record.content.data = {all.data, all.data.get() + offset};
  return record;
}

Decoder::Result Decoder::prepare(const shard::Shard &shard) {
  const auto rows = static_cast<std::size_t>(shard.size());
  const std::size_t threads = std::max<std::size_t>(1, std::min(preparers_.size(), rows));
  std::vector<Tensor> inputs(rows);
  std::vector<std::string> reasons(rows);
  std::vector<std::exception_ptr> errors(threads);
  const auto work = [&](std::size_t thread) {
    try {
      for (std::size_t row = thread; row < rows; row += threads) {
        try {
          inputs[row] = preparers_[thread].input(record(shard, static_cast<std::int64_t>(row)));
        } catch (const data::DecodeError &error) {
          reasons[row] = error.what();
        }
      }
    } catch (...) {
      errors[thread] = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (std::size_t thread = 1; thread < threads; ++thread) pool.emplace_back(work, thread);
  work(0);
  for (std::thread &thread : pool) thread.join();
  for (const std::exception_ptr &error : errors)
    if (error) std::rethrow_exception(error);

  Result result;
  std::vector<Tensor> good;
  std::vector<std::string> ids;
  for (std::size_t row = 0; row < rows; ++row) {
    if (!reasons[row].empty()) {
      result.failures.push_back(cli::printable(shard.ids[row]) + ": " + reasons[row]);
      continue;
    }
    result.good.push_back(static_cast<std::int64_t>(row));
    good.push_back(std::move(inputs[row]));
    ids.push_back(shard.ids[row]);
  }
  if (!good.empty()) result.values.push_back(stack(good, ids));
  return result;
}

Tensor take_rows(const Tensor &tensor, const std::vector<std::int64_t> &rows) {
  Shape shape = tensor.shape;
  const std::size_t bytes = shape[0] > 0 ? tensor.bytes() / static_cast<std::size_t>(shape[0]) : 0;
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor taken = Tensor::empty(tensor.dtype, shape);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(taken.data.get() + i * bytes, tensor.data.get() + static_cast<std::size_t>(rows[i]) * bytes,
                bytes);
  return taken;
}

Tensor stack(const std::vector<Tensor> &rows, const std::vector<std::string> &ids) {
  Shape shape = rows.at(0).shape;
  shape.insert(shape.begin(), static_cast<std::int64_t>(rows.size()));
  Tensor all = Tensor::empty(rows[0].dtype, shape);
  const std::size_t bytes = rows[0].bytes();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].shape != rows[0].shape || rows[i].dtype != rows[0].dtype)
      throw Error(cli::printable(ids[i]) + ": is " + to_string(rows[i].shape) +
                  " after preprocessing, where others are " + to_string(rows[0].shape) +
                  "; preprocess to one size");
    std::memcpy(all.data.get() + i * bytes, rows[i].data.get(), bytes);
  }
  return all;
}

} // namespace tl::train
