// Measures what the planner has to know, on few records and within seconds.
#pragma once

#include "data/source.h"
#include "select/costs.h"
#include "select/shared_graph.h"

#include <string>

namespace tl::select {

struct MeasureOptions {
  std::size_t threads = 0; // that read and decode; 0: one per core
  double seconds = 1;      // about, for each of: a graph's frozen layers, all training
  std::size_t records = 64;
};

/// Adds to `costs` what these candidates need and it lacks; everything if it was measured with another
/// number of threads. `folder`: where features will be, to measure the file system. Returns false if nothing
/// was missing. Records that cannot be decoded are passed over.
bool measure(Costs &costs, const SharedGraphs &graphs, const std::vector<Candidate> &candidates,
             const data::Dataset &dataset, const std::string &folder, const MeasureOptions &options = {});

} // namespace tl::select
