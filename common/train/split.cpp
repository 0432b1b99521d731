#include "train/split.h"

#include <algorithm>
#include <cmath>

namespace tl::train {

bool is_validation(const Digest &record, double share, std::uint64_t seed) {
  // The upper 53 bits are exact in a double.
  const double place = static_cast<double>(mix(seed, record) >> 11) * 0x1p-53;
  return place < share;
}

std::vector<std::int64_t> epoch_order(const std::deque<RecordInfo> &records,
                                      std::vector<std::int64_t> positions, std::uint64_t seed,
                                      std::int64_t epoch) {
  struct Key {
    std::uint64_t rank;
    std::int64_t position;
  };
  std::vector<Key> keys;
  keys.reserve(positions.size());
  for (const std::int64_t position : positions)
    keys.push_back(
        {mix(seed + static_cast<std::uint64_t>(epoch), records[static_cast<std::size_t>(position)].hash),
         position});
  std::sort(keys.begin(), keys.end(), [&](const Key &a, const Key &b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    const RecordInfo &first = records[static_cast<std::size_t>(a.position)];
    const RecordInfo &second = records[static_cast<std::size_t>(b.position)];
    if (first.label != second.label) return first.label < second.label;
    return first.id != second.id ? first.id < second.id : a.position < b.position;
  });
  for (std::size_t i = 0; i < keys.size(); ++i) positions[i] = keys[i].position;
  return positions;
}

} // namespace tl::train
