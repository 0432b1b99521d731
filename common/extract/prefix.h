// What runs beside the data, for each batch of records, and what that gives.
#pragma once

#include "data/loader.h"
#include "graph/cut.h"
#include "graph/execution.h"
#include "model/model.h"
#include "model/program.h"
#include "plan/plan.h"
#include "shard/shard.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::extract {

/// The storage side of a cut: read only (files), preprocessing only (the value "input"), or the
/// frozen layers up to the cut. Everything that decides the content of the features is in meta().
class Prefix {
public:
  /// The storage side of `plan`, after checking that what it names is what is here: the weights, the
  /// values of the cut and their hashes, the number of classes. `origin` is the plan's name for
  /// messages. `model_path` replaces the plan's own when it is not empty. Throws Error for a stale
  /// plan, and whatever load_model() throws; no record is read.
  static Prefix of_plan(const plan::Plan &plan, const std::string &origin, const std::string &model_path,
                        const data::Dataset &dataset);

  /// Up to `cut` of a model, which is legal. Without a codec, pixels that can be shipped in one byte
  /// each are, and other values as they are computed. Throws UsageError for a codec that is not for these
  /// values.
  Prefix(const model::Model &model, const graph::Cut &cut, const data::Preprocess &preprocess,
         std::optional<codec::Codec> codec = {}, graph::Execution execution = graph::Execution::blocked);

  /// The records as they are stored.
  static Prefix of_records(const data::Dataset &dataset);

  /// Of what is written, without the classes, which are the data set's.
  const shard::ShardMeta &meta() const { return meta_; }
  /// The same of what run() gives: before the codec.
  const shard::ShardMeta &computed() const { return computed_; }
  /// What the loader is to deliver.
  data::Form form() const { return form_; }
  const data::Preprocess &preprocess() const { return preprocess_; }
  /// Operators that run; 0 without a network.
  int operators() const { return program_ ? program_->operators() : 0; }

  /// The features of a batch, one tensor for each of computed().values with a row per record. Throws
  /// Error if the network gives something else. Thread-safe. shard::encode() writes them as meta() says.
  std::vector<Tensor> run(const data::Batch &batch) const;

private:
  Prefix() = default;
  void set_values(const model::Model &model, const graph::Cut &cut, codec::Codec codec,
                  graph::Execution execution);

  shard::ShardMeta meta_, computed_;
  data::Form form_ = data::Form::encoded;
  data::Preprocess preprocess_;
  std::shared_ptr<const model::FrozenProgram> program_; // null: no network runs
};

} // namespace tl::extract
