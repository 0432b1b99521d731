// How good a model is on some records. Sums over records, so that no figure depends on batches.
#pragma once

#include "train/options/options.h"
#include "json/document.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tl::train {

class Evaluation {
public:
  explicit Evaluation(std::int64_t classes);

  /// `logits` {n, classes}, `labels` i64 {n}.
  void add(const at::Tensor &logits, const at::Tensor &labels);

  std::int64_t records() const { return records_; }
  /// Cross-entropy, the plain mean over records: comparable whatever the training loss weighs.
  double loss() const;
  double accuracy() const;
  /// Mean recall over the classes that have records.
  double balanced_accuracy() const;
  /// Nothing for a class without records.
  std::optional<double> recall(std::int64_t label) const;
  std::int64_t count(std::int64_t label) const { return total_[static_cast<std::size_t>(label)]; }

  /// The monitored figure, larger is better: the loss counts negatively.
  double score(Monitor monitor) const;

  /// {"records","loss","accuracy","balanced_accuracy","recall":[..., null for a class without records]}
  json::Value to_json() const;

private:
  std::int64_t records_ = 0;
  double loss_ = 0;
  std::vector<std::int64_t> right_, total_;
};

} // namespace tl::train
