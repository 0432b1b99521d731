// Rules that choose among the cuts. Ours, the published ones, and the simple ones to compare with.
//
// They differ in what they minimise and among what; the prediction that goes into the plan is always
// CostModel's, so that plans of different rules can be compared.
#pragma once

#include "plan/cost.h"

#include <functional>

namespace tl::plan {

struct Choice {
  Option option;
  Side train_on = Side::compute;
};

struct Algorithm {
  std::string name;
  std::string summary; // one line for --help
  /// Throws Error if nothing fits the limits or a section of the profile is missing.
  std::function<Choice(const CostModel &, const std::vector<Option> &)> choose;
};

/// All of them, the default first:
/// "pipelined": least total time of all epochs, tiers overlapping. The only one that weighs codecs; the
///              others choose among the cuts as they cross without further ado.
/// "sum":       the same with the tiers one after the other (Neurosurgeon's estimate).
/// "hapi":      HAPI (arXiv 2210.08650), its pipelined estimate of one epoch over cuts of at least
///              one layer, those over the compute side's memory screened out; if no pushdown is
///              predicted to be faster, no pushdown.
/// "earliest":  HAPI's first rule: the earliest cut that is smaller than the input, whose 100
///              batches cross the link in a second, and that lowers the memory of both sides
///              together; none: the freeze layer.
/// "freeze":    the deepest cut: every frozen layer beside the storage.
/// "storage":   the deepest cut, and the training beside the storage too.
/// "none":      no pushdown: files cross the link.
const std::vector<Algorithm> &algorithms();

/// Throws UsageError with the nearest name.
const Algorithm &find_algorithm(const std::string &name);

} // namespace tl::plan
