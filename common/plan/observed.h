// What a training run saw of the tiers, held against what the profiles promised. Neither paper revises its
// choice: HAPI plans once, from measurements of the first epoch. Ours can be made again when the world has
// drifted.
#pragma once

#include "plan/cost.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tl::plan {

/// The last "arrival" in the metrics of tl-train.
struct Observed {
  std::string origin; // file and line, for messages
  std::string cut, codec;
  double records = 0;         // at least 1
  double bytes = 0;           // of them
  double seconds = 0;         // from the first to the last of them
  double compute_seconds = 0; // the compute side's work for one record
  std::string limited_by;     // "storage", "link" or "compute"
};

/// How many times slower than its profile each tier was; 1 where nothing contradicts the profile.
struct Drift {
  double storage = 1, link = 1, compute = 1;

  /// The largest change of any tier, in either direction; at least 1.
  double largest() const;
};

/// Reads metrics lines ("-" is stdin). Nothing if no epoch tells of an arrival: the run read no pipe, or one
/// shard. Throws FormatError naming the line.
std::optional<Observed> load_observed(const std::string &path);

/// The tier that held up the others shows its true speed. Another tier was at least as fast as the whole,
/// which tells something only if its profile promises less. The compute side measures its own work in either
/// case. `options`: predictions by the profiles. Throws Error if what was observed is not among them.
Drift compare(const Observed &observed, const std::vector<Option> &options);

/// Makes the tiers that much slower than they were profiled.
void apply(const Drift &drift, Problem &problem);

} // namespace tl::plan
