#pragma once

#include "reuse/problem.h"

namespace tl::reuse {

struct Options {
  double seconds = 2; // for the exact solver; 0: the greedy answer only
  double gap = 1e-3;  // relative, at which it may stop
};

/// The set of nodes to materialise that makes all passes cheapest within the budget. Exact by integer
/// programming (COIN-OR CBC) when the time suffices; else the better of its best answer and the greedy one,
/// with the gap. Throws Error for a graph that is not in topological order, and for costs that are negative
/// or not finite.
Solution materialise(const Problem &problem, const Options &options = {});

/// The costs of a given set, each reader computing, loading or pruning as is cheapest for it: a minimum cut.
/// The bound is the set's own seconds. The budget is not looked at. `before`: the solution without `added`,
/// whose readers are looked at again only where they could use it.
Solution evaluate(const Problem &problem, const std::vector<bool> &materialised);
Solution evaluate(const Problem &problem, const Solution &before, int added);

/// The cheapest uses of every node for one reader, and what they take: seconds of one pass for a record.
std::vector<Use> pass_uses(const Problem &problem, const Reader &reader,
                           const std::vector<bool> &materialised);
double use_seconds(const Problem &problem, const std::vector<Use> &uses);
double pass_seconds(const Problem &problem, const Reader &reader, const std::vector<bool> &materialised);

} // namespace tl::reuse
