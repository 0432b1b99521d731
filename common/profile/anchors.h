// Prefixes and suffixes of a network that are timed whole, and what they say about its parts.
#pragma once

#include "graph/cut.h"
#include "graph/execution.h"
#include "model/program.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace tl::profile {

/// A border between parts. A part that runs alone converts its inputs and outputs to and from oneDNN's
/// layout, which a longer run does only at its ends; so the parts' times say how the time of a prefix or a
/// suffix is divided, and the anchors how long it takes. Both, because a prefix and the suffix behind it
/// together take longer than the whole network.
struct Anchor {
  std::size_t parts = 0; // before it
  std::unique_ptr<model::FrozenProgram> prefix;
  std::unique_ptr<model::FrozenProgram> suffix; // null at the end of the network
};

/// At about equal shares of the work; the last one is the end of the network. `borders`: those of the parts,
/// with the first and the last.
std::vector<Anchor> make_anchors(const model::Model &model, const std::vector<graph::Cut> &borders,
                                 graph::Execution execution);

/// Scales the seconds of parts, so that the first counts[0] of them take totals[0], the first counts[1]
/// totals[1] and so on; `counts` are ascending, and the last is that of all. Where the difference of two
/// totals is out of proportion, which is a disturbed measurement, only the whole adds up.
std::vector<double> fit_parts(std::vector<double> parts, const std::vector<std::size_t> &counts,
                              const std::vector<double> &totals);

} // namespace tl::profile
