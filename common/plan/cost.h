// The cost model: what an epoch takes for each choice of cut, codec and batch.
//
// The three tiers overlap, so N records take N * max(S, L, C) plus the time in which the pipeline
// fills and drains. Per record:
//   S  storage side: max(read, encode, (decode + prefix + encode) / cores): one pool of cores does it all,
//      but a single thread encodes
//   L  link: bytes / bandwidth
//   C  compute side: decoding files or codecs (by a single thread), the rest of the frozen layers, the
//      training step
// What has crossed is kept, so later epochs do not use the link. As many records as fit the cache are
// kept at the deepest cut and only cost the training step; the others are read back as they came:
//   later epochs  N * (f * max(load(deepest), C(deepest)) + (1 - f) * max(load(cut), C(cut)))
// with f the share of the records that fits.
#pragma once

#include "graph/cut.h"
#include "plan/codecs.h"
#include "plan/node_costs.h"
#include "plan/plan.h"

namespace tl::plan {

/// One way to divide the work; the batch is chosen by CostModel.
struct Candidate : CodedCut {
  CutKind kind = CutKind::values;
  graph::Cut cut;       // of files: position 0 and the input
  bool variant = false; // of the candidate before it, in another codec
};

struct Workload {
  std::int64_t records = 0;
  std::int64_t epochs = 10;
  std::int64_t train_batch = 32; // of a training step; what the prediction of C assumes
};

/// In bytes.
struct Limits {
  std::int64_t storage_memory = -1; // for the prefix
  std::int64_t compute_memory = -1; // for the training step
  std::int64_t cache_bytes = -1;    // for features at the deepest cut, between epochs
};

/// Everything that a prediction depends on.
struct Problem {
  ModelProfile storage_model, compute_model;
  HostProfile storage_host, compute_host;
  std::optional<DataProfile> storage_data, compute_data;
  LinkProfile link;
  graph::Graph graph; // apply_scheme's
  Workload workload;
  Limits limits;
  CodecRules codecs = {};
};

/// A candidate with its batch and what it costs.
struct Option {
  Candidate candidate;
  std::string name; // "files", or the cut's
  std::int64_t batch = 1;
  bool feasible = true; // fits the memory of both sides
  Prediction predicted;
};

class CostModel {
public:
  explicit CostModel(const Problem &problem);

  /// Every candidate, in the order of the graph: files (if the data were profiled), the input (as
  /// u8 pixels if records are images), and each legal cut, each followed by its variants in other codecs;
  /// each with the measured storage batch that costs least per record of those that fit.
  std::vector<Option> options() const;
  /// Training on the storage side too: nothing crosses the link, one host does everything.
  Option all_in_storage() const;

  /// The share of the records that is cached at the deepest cut between epochs.
  double cached_share() const { return cached_share_; }
  /// Bytes a record of what is cached.
  double cache_bytes() const { return cache_bytes_; }
  const graph::Cut &deepest() const { return deepest_; }
  const Problem &problem() const { return problem_; }

private:
  std::vector<Candidate> candidates() const;
  std::vector<Candidate> candidates(const graph::Cut &cut) const;
  Option choose_batch(const Candidate &candidate) const;
  Prediction predict(const Candidate &candidate, std::int64_t batch) const;
  void add_epochs(Prediction &prediction, std::int64_t batch, double round_trip) const;
  double compute_seconds(const NodeCosts &costs, int position) const;
  double decode_seconds(const HostProfile &host, const std::optional<DataProfile> &data) const;
  double load_seconds(double bytes) const;
  double later_seconds(const Candidate &candidate, double compute) const;

  const Problem &problem_;
  CodecCosts codecs_;
  NodeCosts storage_, compute_;
  graph::Cut deepest_;
  std::vector<graph::Cut> cuts_;
  double cached_share_ = 0;
  double cache_bytes_ = 0;
};

} // namespace tl::plan
