// Who is validated, and who is trained in which order: functions of the seed and the record's content
// alone. Neither shards, arrival, threads nor the growth of the data set change them.
#pragma once

#include "runtime/hash.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace tl::train {

/// A record as training knows it.
struct RecordInfo {
  Digest hash;            // of its content
  std::int64_t label = 0; // index into the classes
  std::string id;         // any bytes
};

/// True for about `share` of all records. A record stays where it is when others come or go.
bool is_validation(const Digest &record, double share, std::uint64_t seed);

/// `positions` in the order of epoch `epoch` (>= 1): by mix(seed + epoch, hash), equal ones by label, then
/// id: a name decides only between records that are equal in everything. Epoch 0 runs in arrival order and
/// does not use this.
std::vector<std::int64_t> epoch_order(const std::deque<RecordInfo> &records,
                                      std::vector<std::int64_t> positions, std::uint64_t seed,
                                      std::int64_t epoch);

} // namespace tl::train
