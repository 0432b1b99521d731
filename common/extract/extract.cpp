#include "extract/extract.h"

#include "cli/error.h"
#include "cli/log.h"
#include "runtime/clock.h"
#include "runtime/host.h"
#include "runtime/queue.h"
#include "shard/coding.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

namespace tl::extract {

namespace {

/// Records in order: before row i of `rows`, the members kept[i]; at the end, kept[rows.size()].
struct Item {
  shard::Shard rows;
  std::vector<std::vector<shard::Member>> kept;
};

shard::Member member_of(const data::Dataset &dataset, std::uint32_t index, const Digest &hash) {
  const data::Record &record = dataset.records()[index];
  return {hash, record.label, index, record.id};
}

/// The records to extract, in their order.
std::vector<std::uint32_t> records_of(const data::Dataset &dataset, const ExtractOptions &options) {
  std::vector<std::uint32_t> order = data::record_order(dataset, options.shuffle, options.seed);
  return options.part ? data::only_part(dataset, order, *options.part) : order;
}

/// First row of a float tensor that holds an infinity or not a number, at or after `row`; -1: none.
std::int64_t find_unsound(const Tensor &value, std::int64_t row) {
  if (value.dtype != DType::f32) return -1;
  const std::int64_t rows = value.shape.at(0);
  const std::int64_t width = rows > 0 ? value.elements() / rows : 0;
  const float *data = value.as<float>();
  for (; row < rows; ++row) {
    // x - x is 0 for finite x and not a number for the others, and a sum keeps that; it vectorises.
    float sum = 0;
    for (std::int64_t i = row * width; i < (row + 1) * width; ++i) sum += data[i] - data[i];
    if (!(sum == 0)) return row;
  }
  return -1;
}

/// A stage with a thread of its own: works on items in the order in which they come, and hands them on.
class Worker {
public:
  explicit Worker(std::function<void(Item &)> work, Worker *next = nullptr)
      : work_(std::move(work)), next_(next), queue_(2), thread_([this] { run(); }) {}
  ~Worker() { stop(); }

  /// False once this stage or a later one has failed.
  bool push(Item item) { return queue_.push(std::move(item)); }

  /// Waits until everything is worked on. Rethrows this stage's error.
  void finish() {
    stop();
    rethrow();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  void stop() {
    if (!thread_.joinable()) return;
    queue_.close();
    thread_.join();
  }
  double seconds() const { return seconds_; }

private:
  void run() {
    try {
      while (std::optional<Item> item = queue_.pop()) {
        const Stopwatch watch;
        work_(*item);
        seconds_ += watch.seconds();
        if (next_ && !next_->push(std::move(*item))) break;
      }
    } catch (...) {
      error_ = std::current_exception();
    }
    queue_.close(); // a waiting push() must give up
  }

  std::function<void(Item &)> work_;
  Worker *next_;
  BoundedQueue<Item> queue_;
  std::exception_ptr error_;
  double seconds_ = 0;
  std::thread thread_; // last: it uses the others
};

void write(const Item &item, shard::ShardSink &sink) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < item.kept.size(); ++i) {
    if (item.kept[i].empty()) continue;
    const auto row = static_cast<std::int64_t>(i);
    if (row > begin) sink.append(shard::slice(item.rows, begin, row));
    begin = row;
    for (const shard::Member &member : item.kept[i]) sink.keep(member);
  }
  if (item.rows.size() > begin) sink.append(shard::slice(item.rows, begin, item.rows.size()));
}

class Extraction {
public:
  Extraction(const data::Dataset &dataset, const Prefix &prefix, shard::ShardSink &sink,
             const ExtractOptions &options)
      : dataset_(dataset), prefix_(prefix), sink_(sink), options_(options),
        order_(records_of(dataset, options)), loader_(dataset, order_, prefix.preprocess(), loader_options()),
        writer_([&sink](Item &item) { write(item, sink); }) {
    const shard::ShardMeta &meta = prefix.meta(), &computed = prefix.computed();
    if (meta.codec == computed.codec && !meta.zstd) return; // nothing to do
    encoder_.emplace(
        [&meta](Item &item) {
          if (item.rows.size() > 0) item.rows = shard::encode(meta, item.rows);
        },
        &writer_);
  }

  ExtractReport run() {
    const Stopwatch watch;
    try {
      produce();
      if (encoder_) encoder_->finish();
      writer_.finish();
    } catch (const std::exception &error) {
      if (encoder_) encoder_->stop();
      writer_.stop();
      // The writer's own failure comes first: it is why producing stopped, and nothing can follow it.
      writer_.rethrow();
      sink_.fail(error.what());
      throw;
    }
    report_.skipped.insert(report_.skipped.end(), loader_.skipped().begin(), loader_.skipped().end());
    std::sort(report_.skipped.begin(), report_.skipped.end(),
              [this](const auto &a, const auto &b) { return place_of(a.index) < place_of(b.index); });
    report_.warned = loader_.warned();
    const Stopwatch closing;
    sink_.tell({watch.seconds(), stages(watch.seconds(), writer_.seconds())});
    report_.sink = sink_.finish(static_cast<std::int64_t>(report_.skipped.size()));
    finish_report(watch.seconds(), writer_.seconds() + closing.seconds());
    return std::move(report_);
  }

private:
  data::LoaderOptions loader_options() {
    data::LoaderOptions result;
    result.form = prefix_.form();
    if (options_.batch < 1) throw UsageError("a batch of " + std::to_string(options_.batch) + " records");
    result.batch = static_cast<std::size_t>(options_.batch);
    result.threads = threads();
    result.on_error = options_.keep_going ? data::OnError::skip : data::OnError::fail;
    result.hashes = options_.hashes;
    result.wanted = [this](std::uint32_t index, const Digest &hash) {
      if (!sink_.has(hash)) return true;
      const std::lock_guard<std::mutex> guard(mutex_);
      known_[index] = hash;
      return false;
    };
    return result;
  }

  std::size_t threads() const {
    return options_.threads ? options_.threads : static_cast<std::size_t>(usable_cores());
  }

  void produce() {
    bool going = true;
    while (going) {
      check_interrupt();
      if (options_.adapt) loader_.set_batch(static_cast<std::size_t>(options_.adapt()));
      std::optional<data::Batch> batch = loader_.next();
      Item item;
      if (batch) {
        const Stopwatch watch;
        std::vector<Tensor> values = prefix_.run(*batch);
        item.rows = to_rows(*batch, std::move(values));
        compute_seconds_ += watch.seconds();
        item.kept.resize(batch->size() + 1);
        for (std::size_t i = 0; i < batch->size(); ++i) item.kept[i] = pass_until(batch->index[i]);
        drop_unsound(item);
        report_.computed += item.rows.size();
      } else {
        item.kept.push_back(pass_until(std::nullopt));
        going = false;
      }
      Worker &next = encoder_ ? *encoder_ : writer_;
      if (!next.push(std::move(item))) return; // finish() says why
    }
  }

  /// Steps over the records before `index` in the order, and it; returns those that were there.
  std::vector<shard::Member> pass_until(std::optional<std::uint32_t> index) {
    std::vector<shard::Member> members;
    const std::size_t start = position_;
    const std::lock_guard<std::mutex> guard(mutex_);
    while (position_ < order_.size()) {
      const std::uint32_t here = order_[position_++];
      if (index && here == *index) break;
      const auto found = known_.find(here);
      if (found == known_.end()) continue; // skipped
      members.push_back(member_of(dataset_, here, found->second));
      known_.erase(found);
    }
    report_.kept += static_cast<std::int64_t>(members.size());
    if (options_.progress) options_.progress(position_ - start);
    return members;
  }

  shard::Shard to_rows(data::Batch &batch, std::vector<Tensor> values) const {
    shard::Shard rows;
    rows.meta = prefix_.computed();
    rows.values = std::move(values);
    rows.labels = std::move(batch.labels);
    rows.records = std::move(batch.hashes);
    rows.ids = std::move(batch.ids);
    rows.rows.assign(batch.index.begin(), batch.index.end());
    if (prefix_.meta().payload != shard::Payload::files) return rows;
    rows.file_offset.push_back(0);
    for (const data::Encoded &file : batch.encoded)
      rows.file_offset.push_back(rows.file_offset.back() + static_cast<std::int64_t>(file.content.bytes()));
    rows.files = Tensor::empty(DType::u8, {rows.file_offset.back()});
    for (std::size_t i = 0; i < batch.encoded.size(); ++i)
      std::memcpy(rows.files.data.get() + rows.file_offset[i], batch.encoded[i].content.data.get(),
                  batch.encoded[i].content.bytes());
    return rows;
  }

  /// A feature that is not finite would poison whatever is trained on it.
  void drop_unsound(Item &item) {
    if (prefix_.meta().payload != shard::Payload::values) return;
    std::vector<bool> unsound(static_cast<std::size_t>(item.rows.size()));
    bool any = false;
    for (std::size_t v = 0; v < item.rows.values.size(); ++v)
      for (std::int64_t row = find_unsound(item.rows.values[v], 0); row >= 0;
           row = find_unsound(item.rows.values[v], row + 1)) {
        const auto i = static_cast<std::size_t>(row);
        const std::string why =
            "its feature '" + prefix_.meta().values[v].name + "' holds infinities or not-a-numbers";
        if (!options_.keep_going)
          throw Error(cli::printable(item.rows.ids[i]) + ": " + why +
                      "; with --keep-going such records are skipped and counted");
        if (!unsound[i])
          report_.skipped.push_back({static_cast<std::uint32_t>(item.rows.rows[i]), item.rows.ids[i], why});
        unsound[i] = any = true;
      }
    if (!any) return;
    std::vector<shard::RowRef> sound;
    std::vector<std::vector<shard::Member>> kept(1);
    for (std::size_t i = 0; i <= unsound.size(); ++i) {
      kept.back().insert(kept.back().end(), item.kept[i].begin(), item.kept[i].end());
      if (i == unsound.size() || unsound[i]) continue;
      sound.push_back({&item.rows, static_cast<std::int64_t>(i)});
      kept.emplace_back();
    }
    shard::Shard rows = shard::gather(item.rows.meta, sound);
    item.rows = std::move(rows);
    item.kept = std::move(kept);
  }

  std::size_t place_of(std::uint32_t index) {
    if (places_.empty())
      for (std::size_t i = 0; i < order_.size(); ++i) places_[order_[i]] = i;
    return places_.at(index);
  }

  std::vector<shard::Stage> stages(double seconds, double write_seconds) const {
    std::vector<shard::Stage> result;
    const auto stage = [&](const char *name, double spent, double threads) {
      result.push_back({name, spent, seconds > 0 ? spent / (seconds * threads) : 0});
    };
    const data::LoaderCounters counters = loader_.counters();
    const auto readers = static_cast<double>(std::max(threads(), dataset_.reads_in_flight()));
    stage("read", counters.read_seconds, readers);
    stage("decode", counters.decode_seconds + counters.resize_seconds, static_cast<double>(threads()));
    stage("compute", compute_seconds_, 1);
    if (encoder_) stage("encode", encoder_->seconds(), 1);
    stage("write", write_seconds, 1);
    return result;
  }

  void finish_report(double seconds, double write_seconds) {
    report_.inputs = static_cast<std::int64_t>(order_.size());
    report_.batch = options_.batch;
    report_.threads = threads();
    report_.seconds = seconds;
    report_.bytes_read = loader_.counters().bytes_read;
    report_.stages = stages(seconds, write_seconds);
    const auto skipped = static_cast<std::int64_t>(report_.skipped.size());
    if (report_.sink.records + skipped != report_.inputs)
      throw Error("internal error: " + std::to_string(report_.inputs) + " records became " +
                  std::to_string(report_.sink.records) + " rows and " + std::to_string(skipped) +
                  " skipped ones; please report it");
  }

  const data::Dataset &dataset_;
  const Prefix &prefix_;
  shard::ShardSink &sink_;
  const ExtractOptions &options_;
  const std::vector<std::uint32_t> order_;
  std::mutex mutex_;                                // of known_, which the loader's threads fill
  std::unordered_map<std::uint32_t, Digest> known_; // records whose features the sink has
  std::size_t position_ = 0;                        // in order_: everything before it was dealt with
  std::unordered_map<std::uint32_t, std::size_t> places_;
  double compute_seconds_ = 0;
  ExtractReport report_;
  data::Loader loader_;
  Worker writer_;
  std::optional<Worker> encoder_; // ends before the writer, to which it hands on
};

} // namespace

ExtractReport extract(const data::Dataset &dataset, const Prefix &prefix, shard::ShardSink &sink,
                      const ExtractOptions &options) {
  return Extraction(dataset, prefix, sink, options).run();
}

} // namespace tl::extract
