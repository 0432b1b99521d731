// From profiles and a scheme to a plan: the whole of tl-split behind one call.
#pragma once

#include "plan/algorithms.h"
#include "plan/observed.h"

namespace tl::plan {

struct Request {
  Profile storage, compute; // each needs a host and a model; the data are the storage side's
  LinkProfile link;
  graph::Scheme scheme;
  std::int64_t classes = 0; // 0: as many as the data have
  Workload workload;        // records 0: as many as the data have
  Limits limits;            // -1: half of the memory of that side (cache: the compute side)
  std::string algorithm = "pipelined";
  std::string cut; // not empty: this cut, whatever the algorithm says; "files" is allowed
  CodecRules codecs;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::optional<Observed> observed; // an earlier run of such a plan
  double allowed_drift = 1.5; // a tier's speed may change by this factor before the plan does; at least 1
};

/// Throws UsageError when the request asks for something that the model or the profiles do not have,
/// FormatError when the two profiles are not of the same model and preprocessing.
Plan make_plan(const Request &request);

/// The table of all alternatives, for people: one line each, the chosen one marked with '*', the
/// last column naming the algorithms that choose it.
std::string explain(const Plan &plan);
/// One line: how the tiers have drifted, and whether the choice changed. `plan` is the one that it led to.
std::string describe(const PlanRevision &revision, const Plan &plan);

} // namespace tl::plan
