// A data set divided among several writers of one shard folder.
#pragma once

#include "runtime/hash.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tl::shard {

/// Part `index` of `count`. A record's part depends on its id alone: parts are disjoint and complete, whoever
/// works on them and when, and a record stays in its part when others come or go.
struct Partition {
  std::int64_t index = 1; // from 1 to count
  std::int64_t count = 1;

  bool holds(const std::string &id) const;
  /// "2/4", as on a command line, and "2-of-4", as in a file's name.
  std::string text() const;
  std::string name() const;

  friend bool operator==(const Partition &a, const Partition &b) {
    return a.index == b.index && a.count == b.count;
  }
};

inline constexpr std::int64_t kMaxParts = 9999;

/// Reads "2/4". Throws UsageError.
Partition parse_partition(const std::string &text);
/// Reads "2-of-4"; nothing for any other text.
std::optional<Partition> partition_from_name(std::string_view name);

/// What the writer of a part says of the whole, so that parts can be put together again.
struct PartOf {
  Partition partition;
  bool shuffled = false;   // records stand in the order of mix(seed, hash_text(id)), else of the listing
  std::uint64_t seed = 0;  // of that order
  Digest listing;          // of all records: what they are called, and their labels
  std::int64_t inputs = 0; // how many they are
};

} // namespace tl::shard
