// How a data set differs from what it was.
#pragma once

#include "json/document.h"

#include <cstdint>

namespace tl::shard {

/// Of the records of a data set, between two listings of them: see compare().
struct Changes {
  std::int64_t unchanged = 0;
  std::int64_t added = 0;      // a new id with new content
  std::int64_t changed = 0;    // the same id, other content
  std::int64_t relabelled = 0; // the same content, another class (moved or not)
  std::int64_t renamed = 0;    // the same content and class, another id
  std::int64_t removed = 0;    // in the old index, not in the new one
};

/// The "changes" of every document.
json::Value to_json(const Changes &changes);

} // namespace tl::shard
