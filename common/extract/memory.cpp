#include "extract/memory.h"

#include "cli/error.h"
#include "data/prepare.h"
#include "extract/input.h"
#include "model/peak_memory.h"
#include "runtime/allocation.h"
#include "runtime/memory_use.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace tl::extract {

namespace {

constexpr std::int64_t kMegabyte = std::int64_t{1} << 20;
constexpr std::int64_t kHeap = 24 * kMegabyte; // what an allocator holds between the pieces in use
constexpr std::size_t kSamples = 8;            // records
constexpr std::int64_t kMeasured = 4;          // records of the larger batch

// How many records the stages hold at most, in batches, when the last one is stuck:
constexpr std::int64_t kInputs = 4; // two decoded ahead, one put together, one in the network
constexpr std::int64_t kValues = 4; // one computed, two queued, one encoded or written
constexpr std::int64_t kCoded = 3;  // between encoder and writer
constexpr std::int64_t kRows = 3;   // copied together, and written out into a buffer that grows

std::int64_t row_bytes(const shard::ShardMeta &meta) {
  std::int64_t bytes = 0;
  for (const shard::ValueInfo &value : meta.values)
    bytes += element_count(value.shape) * static_cast<std::int64_t>(size_of(value.dtype));
  return bytes;
}

struct Samples {
  std::int64_t record = 0; // bytes of the largest as it is stored
  std::int64_t decode = 0; // bytes that decoding takes in one thread
};

Samples read_samples(const data::Dataset &dataset, const Prefix &prefix) {
  Samples samples;
  const std::size_t records = dataset.records().size(), count = std::min(records, kSamples);
  const std::int64_t before = own_memory();
  data::Preparer preparer(prefix.preprocess());
  for (std::size_t i = 0; i < count; ++i) {
    try {
      const data::Encoded record = dataset.read(i * records / count);
      samples.record = std::max(samples.record, static_cast<std::int64_t>(record.content.bytes()));
      if (prefix.form() == data::Form::input) preparer.input(record);
      if (prefix.form() == data::Form::pixels) preparer.pixels(record);
    } catch (const data::DecodeError &) { // the extraction will say so
    }
  }
  samples.decode = std::max<std::int64_t>(own_memory() - before, 0);
  return samples;
}

/// Zeros, which take as long as any other input.
data::Batch blank_batch(const model::InputSpec &input, std::int64_t records) {
  data::Batch batch;
  Shape shape = input.shape;
  shape.insert(shape.begin(), records);
  batch.input = Tensor::empty(input.dtype, shape);
  std::memset(batch.input.data.get(), 0, batch.input.bytes());
  batch.index.resize(static_cast<std::size_t>(records));
  return batch;
}

struct Run {
  double seconds = 0;
  std::int64_t peak = 0; // bytes of tensors
};

Run run_network(const Prefix &prefix, const data::Batch &batch) {
  Run run;
  {
    const model::PeakMemory memory;
    prefix.run(batch); // the warm-up
    run.peak = memory.peak_bytes();
  }
  const Stopwatch watch;
  prefix.run(batch);
  run.seconds = watch.seconds();
  return run;
}

/// Sets what the network decides; returns its bytes for one record.
std::int64_t measure_network(const Prefix &prefix, const model::InputSpec &input, lease::Demand &demand) {
  const Run one = run_network(prefix, blank_batch(input, 1));
  const std::int64_t batch = std::min(kMeasured, demand.wanted);
  if (batch == 1) return one.peak;
  const Run several = run_network(prefix, blank_batch(input, batch));
  const auto more = static_cast<double>(batch - 1);
  const double seconds_each = std::max((several.seconds - one.seconds) / more, several.seconds / 1e3);
  const double half = one.seconds / seconds_each - 1;
  demand.half_batch = std::clamp(half, 0.0, static_cast<double>(demand.wanted));
  return std::max((several.peak - one.peak) / (batch - 1), several.peak / batch);
}

} // namespace

std::int64_t loading_memory(const std::string &model_path) {
  if (model_path.empty()) return 32 * kMegabyte;
  std::error_code failed;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(model_path, failed));
  if (failed) return 96 * kMegabyte; // loading it will say why
  const std::int64_t first = std::min(size, 128 * kMegabyte);
  return 96 * kMegabyte + 4 * first + 3 * (size - first);
}

MemoryModel measure_memory(const data::Dataset &dataset, const Prefix &prefix, const MemoryOptions &options) {
  MemoryModel model;
  lease::Demand &demand = model.demand;
  demand.wanted = options.wanted;
  demand.least = std::min(options.least, options.wanted);
  give_back_freed_memory();
  const Samples samples = read_samples(dataset, prefix);

  const shard::ShardMeta &computed = prefix.computed(), &written = prefix.meta();
  std::int64_t input = samples.record, values = samples.record, coded = samples.record;
  if (prefix.form() != data::Form::encoded) {
    const model::InputSpec spec = input_spec(prefix.preprocess(), dataset);
    input = element_count(spec.shape) * static_cast<std::int64_t>(size_of(spec.dtype));
    values = row_bytes(computed);
    coded = std::min(row_bytes(written), values);
    const bool tried = input + values <= options.available;
    if (tried && prefix.operators() > 0) model.network_per_record = measure_network(prefix, spec, demand);
  }
  const bool encodes = written.codec != computed.codec || written.zstd;
  const std::int64_t held =
      kInputs * input + kValues * values + (encodes ? kCoded : 0) * values + kRows * coded;
  demand.per_record = model.network_per_record + held;
  demand.per_record += demand.per_record / 16; // torn heaps grow with what is in them

  give_back_freed_memory();
  const auto threads = static_cast<std::int64_t>(options.threads);
  const std::int64_t decoding = samples.decode + samples.decode / 2 + 2 * input + 2 * kMegabyte;
  demand.fixed = own_memory() + kHeap + threads * decoding +
                 static_cast<std::int64_t>(
                     shard::sink_memory(options.output, static_cast<std::size_t>(coded), options.sink));
  return model;
}

AdaptiveBatch::AdaptiveBatch(lease::Lease &lease, const MemoryModel &model)
    : lease_(lease), network_per_record_(model.network_per_record) {}

std::int64_t AdaptiveBatch::operator()() {
  // Looking costs a millisecond, and small batches come by the thousand.
  if (since_.seconds() < 0.1) return lease_.batch();
  since_.restart();
  std::int64_t needed = own_memory(); // it keeps what it frees, so that this was the most it had
  if (needed > lease_.held() || lease_.shrinking()) {
    give_back_freed_memory();
    needed = own_memory() + lease_.batch() * network_per_record_;
  }
  return lease_.adapt(needed);
}

} // namespace tl::extract
