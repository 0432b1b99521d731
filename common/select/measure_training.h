// Private to common/select: what a candidate's own steps take.
#pragma once

#include "select/costs.h"
#include "select/shared_graph.h"

namespace tl::select {

/// Adds the candidates that `costs` lacks. Those of one network, batch size and optimiser are timed once;
/// when `seconds` are over, the others are estimated by their operations. Returns false if none was missing.
bool measure_training(Costs &costs, const SharedGraphs &graphs, const std::vector<Candidate> &candidates,
                      double seconds);

} // namespace tl::select
