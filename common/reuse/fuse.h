// Which candidates train in one pass over the data, decided together with what is kept on disk.
//
// After Nautilus (SIGMOD 2022, section 4.3), which merges the pair of candidates that saves most, again and
// again, after it has chosen what to materialise. Here both are chosen in turns until neither helps the
// other, batch sizes may differ, and memory holds the rows that a pass would otherwise make again: what fits
// is loaded or computed once, not in each epoch.
#pragma once

#include "reuse/materialise.h"

#include <limits>

namespace tl::reuse {

/// A candidate.
struct Trainee {
  std::vector<int> reads; // nodes
  int kind = 0;           // only those of one kind may share a pass
  double passes = 1;      // over all records: epochs, with their share of validation
  double fixed_bytes = 0; // of memory: parameters, gradients, the optimiser's state
  double step_bytes = 0;  // of memory while it makes a step
  double seconds = 0;     // of its own steps, for a record, over all passes: the same in every plan
};

enum class Keep { plan, all, none }; // what is cheapest; every candidate's reads; nothing

struct FusionProblem {
  std::vector<Node> nodes;       // in topological order
  std::vector<double> row_bytes; // of each node, in memory
  std::vector<Trainee> trainees;
  double records = 0;  // that are there
  double expected = 0; // that the disk budget has to suffice for
  double runs = 1;     // over the same records that are expected, with this one
  double disk = std::numeric_limits<double>::infinity();   // bytes
  double memory = std::numeric_limits<double>::infinity(); // bytes
  double frozen_bytes = 0;                                 // of memory, where anything frozen is computed
  Keep keep = Keep::plan;
  bool fuse = true;
};

/// Candidates that train in one pass.
struct Fused {
  std::vector<std::size_t> trainees;
  std::vector<int> reads; // of all of them, ascending
  double passes = 0;      // in which values are loaded or computed: those whose rows stay in memory, once
  double cached = 0;      // share of the rows that stay in memory
  double memory = 0;      // bytes, without these rows
  std::vector<Use> uses;  // of each node
};

struct FusionPlan {
  std::vector<bool> materialised; // of each node
  std::vector<Fused> groups;      // in the order of their first trainees
  double seconds = 0;             // of this run, with the records that are there: making, passes and steps
  double making = 0;              // of them, to make what is materialised
  double bytes = 0;               // on disk, at the expected records
  double gap = 0;                 // to the best materialisation for these groups, as a share
};

/// The best plan that is found. "Every candidate's reads on disk" is always among those that are compared,
/// if the disk suffices. Throws Error if Keep::all needs more disk than there is.
FusionPlan make_plan(const FusionProblem &problem, const Options &options = {});

/// Of this run if each candidate trained alone and computed everything in each pass: what is done without
/// any of this.
double separate_seconds(const FusionProblem &problem);

} // namespace tl::reuse
