// Records -> batches, decoded by several threads, delivered in exactly the order asked for.
#pragma once

#include "data/source.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::data {

enum class Form {
  input,  // ready for the model: f32 {C,H,W} or row, i64 for tokens
  pixels, // u8 {C,H,W} before scale, mean and std
  encoded // the stored bytes, not decoded
};

enum class OnError {
  fail, // the first bad record, in order, ends the work with an Error naming it
  skip  // it is left out, listed in skipped(), and the batch is filled with the next record
};

/// Remembers the hashes of records between runs. Called from several threads at once and in no order.
class HashCache {
public:
  virtual ~HashCache() = default;
  /// The hash of a record that has certainly not changed; nothing: it must be read.
  virtual std::optional<Digest> find(std::uint32_t index) = 0;
  /// It was read after find() gave nothing.
  virtual void store(std::uint32_t index, const Digest &hash) = 0;
};

struct LoaderOptions {
  Form form = Form::input;
  std::size_t batch = 32;
  std::size_t threads = 0; // that decode; 0: one per core. Dataset::reads_in_flight() may add some that read
  OnError on_error = OnError::fail;
  /// Called after a record is read, before it is decoded; false leaves it out (counted as
  /// unwanted). Called from several threads at once and in no order. May be empty.
  std::function<bool(std::uint32_t index, const Digest &hash)> wanted;
  /// Asked before a record is read: an unwanted one whose hash is known is not read. May be null.
  HashCache *hashes = nullptr;
};

struct Batch {
  Tensor input;                 // {records, ...}; undefined for Form::encoded
  std::vector<Encoded> encoded; // Form::encoded only
  std::vector<std::int64_t> labels;
  std::vector<Digest> hashes;
  std::vector<std::string> ids;
  std::vector<std::uint32_t> index; // into Dataset::records()
  std::size_t size() const { return index.size(); }
};

struct RecordNote {
  std::uint32_t index = 0;
  std::string id;
  std::string reason;
};

struct LoaderCounters {
  std::uint64_t delivered = 0; // records handed out in batches
  std::uint64_t unwanted = 0;
  std::uint64_t bytes_read = 0;
  double read_seconds = 0; // summed over threads
  double decode_seconds = 0;
  double resize_seconds = 0;
  double wait_seconds = 0; // next() blocked because no record was ready
};

/// Read-ahead is bounded; a slow consumer stops the threads. The destructor ends them at once.
class Loader {
public:
  /// `order`: indexes into dataset.records(), each read once. The dataset must outlive the loader.
  /// Throws UsageError when the dataset's content does not fit the preprocessing's kind.
  Loader(const Dataset &dataset, std::vector<std::uint32_t> order, const Preprocess &preprocess,
         LoaderOptions options);
  ~Loader();
  Loader(const Loader &) = delete;
  Loader &operator=(const Loader &) = delete;

  /// The next batch; only the last may be short. Empty at the end. Throws Error naming the record
  /// (OnError::fail), or Interrupted.
  std::optional<Batch> next();

  /// Records of the batches from the next one on, and how far ahead of them records are decoded. Fewer:
  /// what was decoded already is delivered first.
  void set_batch(std::size_t records);

  /// Records that are decoded but not yet part of a batch, at most.
  static std::size_t read_ahead(std::size_t batch, std::size_t threads) { return 2 * batch + 2 * threads; }

  /// Complete once next() has returned nothing; in order.
  const std::vector<RecordNote> &skipped() const;
  /// Records accepted although their file is not quite right (a JPEG without its end marker).
  const std::vector<RecordNote> &warned() const;
  LoaderCounters counters() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// By mix(seed, hash of the content), equal ones by label, then id. Reads every record that `hashes` does not
/// know, with so many threads (0: one per core); those that cannot be read come last.
std::vector<std::uint32_t> content_order(const Dataset &dataset, std::uint64_t seed, std::size_t threads,
                                         HashCache *hashes = nullptr);

} // namespace tl::data
