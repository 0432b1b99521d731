// The records at the values where training begins: what arrives, through the frozen layers between the
// cut and the trained part, once if memory allows.
#pragma once

#include "model/program.h"
#include "train/source.h"

#include <ATen/core/Tensor.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace tl::train {

/// What trainers are fed with. `records` point into Features, which outlives the rows.
struct Rows {
  std::vector<at::Tensor> values; // for each value where training begins: {rows, shape...}
  at::Tensor labels;              // i64 {rows}
  std::vector<const RecordInfo *> records;
  std::vector<std::int64_t> positions;

  std::int64_t size() const { return static_cast<std::int64_t>(records.size()); }
};
/// The rows at these places (indexes into `rows`), copied.
Rows select(const Rows &rows, const std::vector<std::int64_t> &places);

struct FeatureOptions {
  std::int64_t cache_bytes = 0; // memory for results of the frozen layers; 0: recomputed in each pass
  std::int64_t chunk = 0;       // records at a time through the frozen layers; 0: by their size
  bool keep_mapped = false;     // caches also what a cheap() source could give again
};

struct FeatureCounters {
  std::int64_t computed = 0; // records that went through the frozen layers, over all passes
  double frozen_seconds = 0;
  double waited = 0; // seconds for the reader, over all passes
  std::int64_t cached = 0;
  std::int64_t cached_bytes = 0;
};

class Features {
public:
  /// `frozen` runs from what the source delivers to where training begins; null if that is the same.
  /// Labels must be below `classes`.
  Features(std::unique_ptr<RecordSource> source, std::shared_ptr<const model::FrozenProgram> frozen,
           std::int64_t classes, const FeatureOptions &options = {});
  ~Features();

  /// True once every record has arrived.
  bool complete() const;
  /// In arrival order; all of them once complete().
  const std::deque<RecordInfo> &records() const;
  const RecordSource &source() const;

  /// One pass: a reader thread reads ahead, next() runs the frozen layers and hands out rows. One
  /// pass at a time. Errors of the reader (damage, a cut-off stream, an unlabelled record) are thrown
  /// by next().
  class Pass {
  public:
    ~Pass();
    std::optional<Rows> next();

  private:
    friend class Features;
    struct State;
    explicit Pass(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  /// The arrival itself: each record once, in arrival order. Only while not complete().
  std::unique_ptr<Pass> arrive();
  /// The rest of the arrival, without training on it.
  void drain();
  /// These records in this order. Only once complete().
  std::unique_ptr<Pass> pass(std::vector<std::int64_t> positions);

  FeatureCounters counters() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tl::train
