// What a data set holds, in its own order.
#pragma once

#include "data/source.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tl::test {

using Names = std::vector<std::string>;
using Labels = std::vector<std::int64_t>;

inline Names ids(const data::Dataset &dataset) {
  Names all;
  for (const data::Record &record : dataset.records()) all.push_back(record.id);
  return all;
}

inline Labels labels(const data::Dataset &dataset) {
  Labels all;
  for (const data::Record &record : dataset.records()) all.push_back(record.label);
  return all;
}

/// True if one of its notes holds `part`.
inline bool noted(const data::Dataset &dataset, const std::string &part) {
  return std::any_of(dataset.notes().begin(), dataset.notes().end(),
                     [&](const std::string &note) { return note.find(part) != std::string::npos; });
}

} // namespace tl::test
