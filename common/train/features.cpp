#include "train/features.h"

#include "cli/error.h"
#include "cli/log.h"
#include "model/tensors.h"
#include "runtime/clock.h"
#include "runtime/queue.h"
#include "train/cache.h"

#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace tl::train {

namespace {
// Read ahead: enough for the reader and the trainer to overlap, little enough for large tensors.
constexpr std::size_t kReadAhead = 4;
constexpr std::int64_t kChunkBytes = std::int64_t{16} << 20;

std::int64_t chunk_rows(std::int64_t bytes_per_row) {
  return std::clamp<std::int64_t>(kChunkBytes / std::max<std::int64_t>(bytes_per_row, 1), 16, 512);
}

/// Chunks that arrived one after the other and go through the frozen layers together: small batches cost
/// more, above all in large linear layers, whose weights are read once a batch.
struct Block {
  std::vector<Chunk> chunks;
  std::int64_t rows = 0;

  explicit Block(Chunk &&chunk) : rows(static_cast<std::int64_t>(chunk.records.size())) {
    chunks.push_back(std::move(chunk));
  }

  bool join(Block &more, std::int64_t limit) {
    if (rows + more.rows > limit) return false;
    std::move(more.chunks.begin(), more.chunks.end(), std::back_inserter(chunks));
    rows += more.rows;
    return true;
  }

  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> values;
    for (std::size_t v = 0; v < chunks.at(0).values.size(); ++v) {
      std::vector<at::Tensor> parts;
      for (const Chunk &chunk : chunks) parts.push_back(model::to_torch(chunk.values[v]));
      values.push_back(parts.size() == 1 ? parts[0] : at::cat(parts));
    }
    return values;
  }
};

std::vector<at::Tensor> narrow(const std::vector<at::Tensor> &values, std::int64_t begin, std::int64_t rows) {
  std::vector<at::Tensor> part;
  for (const at::Tensor &value : values) part.push_back(value.narrow(0, begin, rows));
  return part;
}
} // namespace

Rows select(const Rows &rows, const std::vector<std::int64_t> &places) {
  Rows chosen;
  const at::Tensor index = at::tensor(places, at::kLong);
  for (const at::Tensor &value : rows.values) chosen.values.push_back(value.index_select(0, index));
  chosen.labels = rows.labels.index_select(0, index);
  for (const std::int64_t place : places) {
    chosen.records.push_back(rows.records[static_cast<std::size_t>(place)]);
    chosen.positions.push_back(rows.positions[static_cast<std::size_t>(place)]);
  }
  return chosen;
}

struct Features::State {
  std::unique_ptr<RecordSource> source;
  std::shared_ptr<const model::FrozenProgram> frozen;
  std::int64_t classes;
  FeatureOptions options;
  std::deque<RecordInfo> records;
  bool complete = false;
  RowCache cache;
  FeatureCounters counters;
  std::int64_t feature_bytes = 0; // of a row, known after the first

  State(std::unique_ptr<RecordSource> s, std::shared_ptr<const model::FrozenProgram> f, std::int64_t c,
        const FeatureOptions &o)
      : source(std::move(s)), frozen(std::move(f)), classes(c), options(o),
        cache(frozen || o.keep_mapped || !source->cheap() ? o.cache_bytes : 0) {}

  std::vector<at::Tensor> compute(const Block &block) {
    std::vector<at::Tensor> values = block.values();
    if (frozen) {
      const Stopwatch watch;
      values = frozen->run(values);
      counters.frozen_seconds += watch.seconds();
    }
    counters.computed += values.at(0).size(0);
    feature_bytes = row_bytes(values);
    return values;
  }

  /// Adds arrived records and returns their rows; without values if they are needed neither now nor
  /// in the cache.
  Rows admit(const Block &block, bool use) {
    Rows rows;
    for (const Chunk &chunk : block.chunks)
      for (const RecordInfo &record : chunk.records) {
        check_label(record);
        rows.positions.push_back(static_cast<std::int64_t>(records.size()));
        records.push_back(record);
      }
    if (use || cache.open() || feature_bytes == 0) {
      rows.values = compute(block);
      cache.append(rows.values);
    }
    label(rows);
    return rows;
  }

  void check_label(const RecordInfo &record) const {
    if (record.label < 0)
      throw Error(cli::printable(record.id) + ": has no label; training needs one for every record");
    if (record.label >= classes)
      throw FormatError(cli::printable(record.id) + ": label " + std::to_string(record.label) +
                        " is outside the " + std::to_string(classes) + " classes");
  }

  /// Fills in what follows from the positions.
  void label(Rows &rows) const {
    rows.labels = at::empty({static_cast<std::int64_t>(rows.positions.size())}, at::kLong);
    auto *labels = rows.labels.data_ptr<std::int64_t>();
    for (const std::int64_t position : rows.positions) {
      const RecordInfo &record = records[static_cast<std::size_t>(position)];
      rows.records.push_back(&record);
      *labels++ = record.label;
    }
  }
};

struct Features::Pass::State {
  Features::State &owner;
  const bool arriving;
  bool use = true;                     // false: the rows of the arrival are not looked at
  std::vector<std::int64_t> positions; // of a later pass
  std::size_t done = 0;                // of them
  std::vector<at::Tensor> computed;    // rows from the source that have not been handed out
  BoundedQueue<Block> queue{kReadAhead};
  std::atomic<bool> cancelled{false};
  std::thread reader;

  State(Features::State &features, std::vector<std::int64_t> order, bool arrival)
      : owner(features), arriving(arrival), positions(std::move(order)) {
    std::vector<std::int64_t> missing;
    for (const std::int64_t position : positions)
      if (position >= owner.cache.size()) missing.push_back(position);
    if (arriving || !missing.empty())
      reader = std::thread([this, missing] { read(missing); });
    else
      queue.close();
  }

  ~State() {
    cancelled = true;
    queue.close();
    if (reader.joinable()) reader.join();
    owner.counters.waited += queue.pop_wait();
  }

  void read(const std::vector<std::int64_t> &missing) {
    const CancelScope scope(cancelled);
    try {
      RecordSource &source = *owner.source;
      if (!arriving) source.start(missing);
      std::int64_t limit = owner.options.chunk > 0 ? owner.options.chunk : 16;
      while (std::optional<Chunk> chunk = source.next(limit)) {
        check_interrupt();
        if (owner.options.chunk <= 0) {
          std::int64_t bytes = 0;
          for (const Tensor &value : chunk->values) bytes += static_cast<std::int64_t>(value.bytes());
          limit = chunk_rows(bytes / std::max<std::int64_t>(value_rows(*chunk), 1));
        }
        if (!queue.push(Block(std::move(*chunk)),
                        [&](Block &last, Block &more) { return last.join(more, limit); }))
          return;
      }
      queue.close();
    } catch (...) {
      queue.fail(std::current_exception());
    }
  }

  static std::int64_t value_rows(const Chunk &chunk) {
    return static_cast<std::int64_t>(chunk.records.size());
  }

  /// The next rows of the records that are not cached, in order.
  std::vector<at::Tensor> take(std::int64_t rows) {
    while (computed.empty() || computed[0].size(0) < rows) {
      const std::optional<Block> block = queue.pop();
      if (!block) throw Error("a source of features delivered fewer records than before; was it changed?");
      std::vector<at::Tensor> more = owner.compute(*block);
      if (!computed.empty() && computed[0].size(0) > 0)
        for (std::size_t v = 0; v < more.size(); ++v) more[v] = at::cat({computed[v], more[v]});
      computed = std::move(more);
    }
    std::vector<at::Tensor> taken = narrow(computed, 0, rows);
    computed = narrow(computed, rows, computed[0].size(0) - rows);
    return taken;
  }

  std::optional<Rows> arrive() {
    const std::optional<Block> block = queue.pop();
    if (block) return owner.admit(*block, use);
    owner.complete = true;
    return std::nullopt;
  }

  std::optional<Rows> next() {
    check_interrupt();
    if (arriving) return arrive();
    if (done == positions.size()) return std::nullopt;
    const std::int64_t limit =
        owner.options.chunk > 0 ? owner.options.chunk : chunk_rows(owner.feature_bytes);
    const auto rows = std::min<std::int64_t>(limit, static_cast<std::int64_t>(positions.size() - done));
    Rows block;
    const auto first = positions.begin() + static_cast<std::ptrdiff_t>(done);
    block.positions.assign(first, first + rows);
    done += static_cast<std::size_t>(rows);
    fill(block);
    owner.label(block);
    return block;
  }

  void fill(Rows &block) {
    const RowCache &cache = owner.cache;
    const auto missing = std::count_if(block.positions.begin(), block.positions.end(),
                                       [&](std::int64_t position) { return position >= cache.size(); });
    std::vector<at::Tensor> fresh;
    if (missing > 0) fresh = take(missing);
    const auto rows = static_cast<std::int64_t>(block.positions.size());
    if (missing == rows) {
      block.values = std::move(fresh);
      return;
    }
    block.values = cache.like(rows);
    std::int64_t used = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t position = block.positions[static_cast<std::size_t>(row)];
      if (position < cache.size()) {
        cache.copy(position, block.values, row);
      } else {
        for (std::size_t v = 0; v < fresh.size(); ++v) copy_row(fresh[v], used, block.values[v], row);
        ++used;
      }
    }
  }
};

Features::Pass::Pass(std::unique_ptr<State> state) : state_(std::move(state)) {}
Features::Pass::~Pass() = default;
std::optional<Rows> Features::Pass::next() { return state_->next(); }

Features::Features(std::unique_ptr<RecordSource> source, std::shared_ptr<const model::FrozenProgram> frozen,
                   std::int64_t classes, const FeatureOptions &options)
    : state_(std::make_unique<State>(std::move(source), std::move(frozen), classes, options)) {}
Features::~Features() = default;

bool Features::complete() const { return state_->complete; }
const std::deque<RecordInfo> &Features::records() const { return state_->records; }
const RecordSource &Features::source() const { return *state_->source; }

std::unique_ptr<Features::Pass> Features::arrive() {
  if (state_->complete) throw Error("internal error: the records have arrived already");
  return std::unique_ptr<Pass>(
      new Pass(std::make_unique<Pass::State>(*state_, std::vector<std::int64_t>{}, true)));
}

void Features::drain() {
  const std::unique_ptr<Pass> pass = arrive();
  pass->state_->use = false;
  while (pass->next()) {
  }
}

std::unique_ptr<Features::Pass> Features::pass(std::vector<std::int64_t> positions) {
  if (!state_->complete) throw Error("internal error: a pass before all records have arrived");
  return std::unique_ptr<Pass>(new Pass(std::make_unique<Pass::State>(*state_, std::move(positions), false)));
}

FeatureCounters Features::counters() const {
  FeatureCounters counters = state_->counters;
  counters.cached = state_->cache.size();
  counters.cached_bytes = state_->cache.bytes();
  return counters;
}

} // namespace tl::train
