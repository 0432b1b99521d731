// Private to common/reuse: the integer program.
#pragma once

#include "reuse/materialise.h"

namespace tl::reuse {

/// Solves a contracted problem, starting from `start`. Its bound is what the solver proved.
/// `start` comes back if nothing better was found in time.
Solution solve_exactly(const Problem &problem, const Solution &start, const Options &options);

} // namespace tl::reuse
