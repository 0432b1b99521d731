#include "data/loader.h"

#include "cli/error.h"
#include "cli/log.h"
#include "runtime/clock.h"
#include "runtime/slots.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <tuple>

namespace tl::data {

namespace {

/// What became of one record.
struct Outcome {
  enum class Kind { empty, ready, unwanted, bad, failed } kind = Kind::empty;
  Encoded record; // its content only for Form::encoded
  Tensor value;   // otherwise what goes into the batch
  std::string note;
  std::exception_ptr error;
};

void check_fit(const Dataset &dataset, const Preprocess &preprocess, const LoaderOptions &options) {
  preprocess.check();
  if (options.batch == 0) throw UsageError("a batch of 0 records");
  if (options.form == Form::encoded) return;
  const InputKind kind = preprocess.kind;
  const auto refuse = [&](const std::string &what) { throw UsageError(dataset.spec() + ": " + what); };
  if (dataset.content() == Content::tokens && kind != InputKind::tokens)
    refuse("holds tokens; use --preprocess tokens");
  if (dataset.content() != Content::tokens && kind == InputKind::tokens) refuse("holds no tokens");
  if (dataset.content() == Content::files && kind == InputKind::tensor)
    refuse("holds picture files; --preprocess tensor is for rows of numbers");
  if (options.form == Form::pixels && kind != InputKind::image) refuse("its records have no pixels");
}

std::size_t thread_count(std::size_t wanted) {
  return wanted ? wanted : std::max(1U, std::thread::hardware_concurrency());
}

} // namespace

struct Loader::State {
  const Dataset &dataset;
  const std::vector<std::uint32_t> order;
  const Preprocess preprocess;
  const LoaderOptions options;

  // The outcomes of positions [consumed, claimed) of the order. Threads claim positions in turn, at most
  // `ahead` of the consumer, so memory is bounded and order is kept.
  std::mutex mutex;
  std::condition_variable filled, freed;
  std::deque<Outcome> window;
  std::size_t claimed = 0, consumed = 0;
  std::size_t batch = 1, ahead = 1;
  bool stop = false;
  LoaderCounters counters;

  std::vector<RecordNote> skipped, warned;
  // A thread reads a record, then decodes it. Where reading mostly waits there are more threads than are
  // to decode at once.
  std::vector<std::thread> threads;
  Slots decoding;
  std::atomic<bool> cancelled{false}; // ends the reads that wait for a network

  State(const Dataset &d, std::vector<std::uint32_t> o, Preprocess p, LoaderOptions l)
      : dataset(d), order(std::move(o)), preprocess(std::move(p)), options(std::move(l)),
        decoding(thread_count(options.threads)) {}

  Outcome process(std::uint32_t index, Preparer &preparer, LoaderCounters &spent);
  void work();
  Outcome take();
  void add_note(std::vector<RecordNote> &notes, std::uint32_t index, const std::string &reason);
  void stop_threads();

  void set_batch(std::size_t records) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      batch = records;
      // One batch ahead of the one being filled keeps the threads busy while the consumer works.
      ahead = std::max(read_ahead(records, thread_count(options.threads)), dataset.reads_in_flight());
    }
    freed.notify_all();
  }
};

Outcome Loader::State::process(std::uint32_t index, Preparer &preparer, LoaderCounters &spent) {
  Outcome outcome;
  try {
    if (options.hashes && options.wanted)
      if (const std::optional<Digest> hash = options.hashes->find(index);
          hash && !options.wanted(index, *hash)) {
        outcome.kind = Outcome::Kind::unwanted;
        return outcome;
      }
    const Stopwatch watch;
    Encoded record = dataset.read(index);
    if (options.hashes) options.hashes->store(index, record.hash);
    spent.read_seconds += watch.seconds();
    spent.bytes_read += record.content.bytes();
    outcome.record.hash = record.hash;
    outcome.record.is_file = record.is_file;
    if (options.wanted && !options.wanted(index, record.hash)) {
      outcome.kind = Outcome::Kind::unwanted;
      return outcome;
    }
    if (options.form == Form::encoded)
      outcome.record = std::move(record);
    else {
      const Slots::Hold hold(decoding);
      outcome.value = options.form == Form::pixels ? preparer.pixels(record) : preparer.input(record);
      outcome.note = preparer.warning();
    }
    outcome.kind = Outcome::Kind::ready;
  } catch (const DecodeError &error) {
    outcome.kind = Outcome::Kind::bad;
    outcome.note = error.what();
  } catch (...) {
    outcome.kind = Outcome::Kind::failed;
    outcome.error = std::current_exception();
  }
  return outcome;
}

void Loader::State::work() {
  const CancelScope scope(cancelled);
  Preparer preparer(preprocess);
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    freed.wait(lock, [&] { return stop || claimed == order.size() || claimed < consumed + ahead; });
    if (stop || claimed == order.size()) return;
    const std::size_t position = claimed++;
    window.emplace_back();
    lock.unlock();
    LoaderCounters spent;
    const PrepareTimes before = preparer.times();
    Outcome outcome = process(order[position], preparer, spent);
    lock.lock();
    counters.read_seconds += spent.read_seconds;
    counters.bytes_read += spent.bytes_read;
    counters.decode_seconds += preparer.times().decode - before.decode;
    counters.resize_seconds += preparer.times().resize - before.resize;
    window[position - consumed] = std::move(outcome);
    filled.notify_one();
  }
}

/// The outcome of the next position.
Outcome Loader::State::take() {
  Outcome outcome;
  {
    std::unique_lock<std::mutex> lock(mutex);
    const Stopwatch watch;
    // A signal interrupts no wait on a condition: look for one now and then.
    while (!filled.wait_for(lock, std::chrono::milliseconds(200),
                            [&] { return !window.empty() && window.front().kind != Outcome::Kind::empty; }))
      check_interrupt();
    counters.wait_seconds += watch.seconds();
    outcome = std::move(window.front());
    window.pop_front();
    ++consumed;
  }
  freed.notify_all();
  return outcome;
}

void Loader::State::add_note(std::vector<RecordNote> &notes, std::uint32_t index, const std::string &reason) {
  notes.push_back({index, dataset.records()[index].id, reason});
}

void Loader::State::stop_threads() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stop = true;
  }
  cancelled = true;
  freed.notify_all();
  for (std::thread &thread : threads) thread.join();
}

namespace {

/// The batch's tensor, grown by one record at a time.
class Stack {
public:
  explicit Stack(std::size_t capacity) : capacity_(static_cast<std::int64_t>(capacity)) {}

  void add(const Tensor &value, const std::string &id) {
    if (rows_ == 0) {
      row_ = value.shape;
      Shape shape = row_;
      shape.insert(shape.begin(), capacity_);
      tensor_ = Tensor::empty(value.dtype, shape);
    }
    if (value.shape != row_)
      throw Error(cli::printable(id) + ": becomes " + to_string(value.shape) +
                  " where the records before it became " + to_string(row_) +
                  "; add a crop or an exact resize to the preprocessing");
    std::memcpy(tensor_.data.get() + static_cast<std::size_t>(rows_) * value.bytes(), value.data.get(),
                value.bytes());
    ++rows_;
  }

  Tensor finish() {
    if (rows_ > 0) tensor_.shape[0] = rows_;
    return std::move(tensor_);
  }

private:
  std::int64_t capacity_;
  std::int64_t rows_ = 0;
  Shape row_;
  Tensor tensor_;
};

} // namespace

Loader::Loader(const Dataset &dataset, std::vector<std::uint32_t> order, const Preprocess &preprocess,
               LoaderOptions options) {
  check_fit(dataset, preprocess, options);
  for (const std::uint32_t index : order)
    if (index >= dataset.records().size()) throw Error("record " + std::to_string(index) + " does not exist");
  state_ = std::make_unique<State>(dataset, std::move(order), preprocess, std::move(options));
  State &state = *state_;
  std::size_t threads = std::max(thread_count(state.options.threads), dataset.reads_in_flight());
  threads = std::min(threads, std::max<std::size_t>(state.order.size(), 1));
  state.set_batch(state.options.batch);
  try {
    for (std::size_t i = 0; i < threads; ++i) state.threads.emplace_back([&state] { state.work(); });
  } catch (...) {
    state.stop_threads();
    throw;
  }
}

Loader::~Loader() { state_->stop_threads(); }

void Loader::set_batch(std::size_t records) {
  if (records == 0) throw UsageError("a batch of 0 records");
  state_->set_batch(records);
}

std::optional<Batch> Loader::next() {
  State &state = *state_;
  Batch batch;
  Stack stack(std::min(state.batch, state.order.size() - state.consumed));
  while (batch.size() < state.batch && state.consumed < state.order.size()) {
    check_interrupt();
    const std::uint32_t index = state.order[state.consumed];
    const Record &record = state.dataset.records()[index];
    Outcome outcome = state.take();
    if (outcome.kind == Outcome::Kind::failed) std::rethrow_exception(outcome.error);
    if (outcome.kind == Outcome::Kind::unwanted) {
      std::lock_guard<std::mutex> lock(state.mutex);
      ++state.counters.unwanted;
      continue;
    }
    if (outcome.kind == Outcome::Kind::bad) {
      if (state.options.on_error == OnError::fail)
        throw DecodeError(cli::printable(record.id) + ": " + outcome.note +
                          "; with --keep-going such records are skipped and counted");
      state.add_note(state.skipped, index, outcome.note);
      continue;
    }
    if (!outcome.note.empty()) state.add_note(state.warned, index, outcome.note);
    if (state.options.form == Form::encoded)
      batch.encoded.push_back(outcome.record);
    else
      stack.add(outcome.value, record.id);
    batch.labels.push_back(record.label);
    batch.hashes.push_back(outcome.record.hash);
    batch.ids.push_back(record.id);
    batch.index.push_back(index);
  }
  if (batch.size() == 0) return std::nullopt;
  batch.input = stack.finish();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.counters.delivered += batch.size();
  return batch;
}

const std::vector<RecordNote> &Loader::skipped() const { return state_->skipped; }
const std::vector<RecordNote> &Loader::warned() const { return state_->warned; }

LoaderCounters Loader::counters() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->counters;
}

std::vector<std::uint32_t> content_order(const Dataset &dataset, std::uint64_t seed, std::size_t threads,
                                         HashCache *hashes) {
  std::vector<std::uint32_t> order = record_order(dataset, false, 0);
  struct Key {
    bool unread = true;
    std::uint64_t rank = 0;
  };
  std::vector<Key> keys(order.size());
  LoaderOptions options;
  options.form = Form::encoded;
  options.threads = threads;
  options.on_error = OnError::skip;
  options.hashes = hashes;
  options.wanted = [&](std::uint32_t index, const Digest &hash) {
    keys[index] = {false, mix(seed, hash)};
    return false; // that was all
  };
  Loader loader(dataset, order, Preprocess{}, options);
  loader.next();
  const std::vector<Record> &records = dataset.records();
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(keys[a].unread, keys[a].rank, records[a].label, records[a].id) <
           std::tie(keys[b].unread, keys[b].rank, records[b].label, records[b].id);
  });
  return order;
}

} // namespace tl::data
