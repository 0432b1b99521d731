// The plan: where the network is cut, what crosses the link and how, and what that is expected to
// cost. tl-split writes it; tl-extract runs its storage side and tl-train its compute side.
#pragma once

#include "codec/codec.h"
#include "graph/cut.h"
#include "graph/execution.h"
#include "graph/scheme.h"
#include "json/document.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::plan {

enum class CutKind {
  files,  // the encoded records cross as they are: no work on the storage side
  values, // tensors cross; the value "input" alone is the preprocessed record
};

using codec::Codec;

enum class Side { storage, compute };

std::string_view name_of(CutKind kind);
std::string_view name_of(Side side);

/// A tensor that crosses. Its rows are records.
struct PlanValue {
  std::string name;
  Digest hash; // of the value in the graph; must equal the executor's own
  DType dtype = DType::f32;
  Shape shape; // of one record
};

/// Expected times of one choice of cut, codec and batch.
struct Prediction {
  double storage = 0; // seconds a record: read, decode, prefix
  double link = 0;    // seconds a record
  double compute = 0; // seconds a record: the rest of the frozen part and the training step
  double later = 0;   // seconds a record in later epochs, from what was kept
  double first_epoch = 0;
  double later_epoch = 0;          // each
  double total = 0;                // all epochs
  double bytes = 0;                // over the link, a record
  std::int64_t storage_memory = 0; // bytes
  std::int64_t compute_memory = 0; // bytes

  /// "storage", "link" or "compute": the largest of the three.
  std::string_view bottleneck() const;
};

/// One row of the table that the choice was made from.
struct Alternative {
  std::string name; // "files", or values joined by '+'
  Codec codec = Codec::fp32;
  std::int64_t batch = 1;
  bool feasible = true; // fits the memory of both sides
  Prediction predicted;
  std::vector<std::string> chosen_by; // algorithms
};

/// What the compute side keeps in memory between epochs; as many records as fit.
struct PlanCache {
  std::vector<std::string> values;   // the deepest frozen ones
  std::int64_t bytes_per_record = 0; // of all of them
  std::int64_t memory = 0;           // bytes at most; 0: nothing is kept
};

/// What an observed run said of the profiles, when the plan was made from both.
struct PlanRevision {
  double storage = 1, link = 1, compute = 1; // times slower than profiled
  double allowed = 1;                        // at most this, either way, is no drift
  bool drifted = false;                      // if so, the plan is for what was observed
  std::string cut, codec;                    // that the profiles alone would have chosen
};

struct Plan {
  std::string model_path;         // of the compute side (tl-train)
  std::string storage_model_path; // of the storage side (tl-extract); often the same
  Digest model_digest;            // parameters_digest() of the pretrained graph
  DType input_dtype = DType::f32; // of one record at the model's input
  Shape input_shape;
  std::int64_t classes = 0;
  graph::Scheme scheme;
  json::Value preprocess; // data::to_json(Preprocess)

  CutKind kind = CutKind::values;
  std::vector<PlanValue> values; // empty for files
  Codec codec = Codec::fp32;

  /// How each side runs its frozen layers, as it was measured to be the fastest there.
  graph::Execution storage_execution = graph::Execution::blocked;
  graph::Execution compute_execution = graph::Execution::blocked;

  std::int64_t batch = 1; // records at a time on the storage side; changes no result
  bool shuffle = true;    // records in the order of mix(seed, hash_text(id)), else in listing order
  std::uint64_t seed = 0;

  PlanCache cache;
  Side train_on = Side::compute; // where the prediction assumes that training runs

  std::string algorithm;
  Prediction predicted;
  std::optional<PlanRevision> revision;
  std::vector<Alternative> alternatives;

  /// "files", or value names joined by '+'.
  std::string cut_name() const;
  /// True if layers run on the storage side: it sends neither files nor the preprocessed input alone.
  bool storage_computes() const;
  /// Hash of what decides the content of the features: kind, the codec's number, the values by name and hash,
  /// which covers the model and the preprocessing, and an execution that rounds; not compression, which loses
  /// nothing, batch, order or anything predicted. Shards carry it.
  Digest digest() const;
};

/// Hash of all parameters by name and content: identifies the pretrained model, whatever the file.
Digest parameters_digest(const graph::Graph &graph);

json::Value to_json(const Plan &plan);
/// Validates against schemas/plan.schema.json and checks the digest. Throws FormatError.
Plan plan_from_json(const json::Value &document, const std::string &origin);
/// Reads a file ("-" is stdin).
Plan load_plan(const std::string &path);

} // namespace tl::plan
