// The multi-model graphs of an experiment: one for each way in which its models see the records.
#pragma once

#include "select/candidate.h"
#include "select/multi_model.h"

#include <memory>
#include <vector>

namespace tl::select {

/// Models that read the same preprocessed records, merged.
struct SharedGraph {
  std::shared_ptr<MultiModel> merged;
  data::Preprocess preprocess;
  std::vector<graph::ValueId> wanted; // what candidates read, ascending

  const graph::Graph &graph() const { return merged->model().graph; }
  const graph::Value &value(graph::ValueId id) const { return graph().values[static_cast<std::size_t>(id)]; }
  const Digest &input() const { return graph().input().hash; }
};

struct SharedGraphs {
  std::vector<SharedGraph> graphs;
  std::vector<std::size_t> of;                    // each candidate's graph
  std::vector<std::vector<graph::ValueId>> reads; // each candidate's Prepared::inputs there, in that order
};

SharedGraphs share(const std::vector<Candidate> &candidates);

} // namespace tl::select
