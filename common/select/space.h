// The candidates that an experiment document spans: lists make a grid, ranges are drawn from.
#pragma once

#include "json/document.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::select {

/// More candidates than this are refused: a grid with one list too many, not a wish.
constexpr std::size_t kMaxCandidates = 10000;

/// Settings of one candidate: every field holds one value.
struct Point {
  std::string place; // "/candidates/0": for messages
  json::Value settings;
};

/// One entry of "candidates" with the defaults filled in. A field holds one value, a list, or an object
/// {"choice": [...]}, {"uniform": [low, high]} or {"log_uniform": [low, high]}.
struct Space {
  std::string place;
  json::Value fields;
};

/// Every combination of the lists and choices, space by space, the last listed field changing first. Throws
/// FormatError "origin: place: ..." for a range, and for more than kMaxCandidates.
std::vector<Point> expand(const std::vector<Space> &spaces, const std::string &origin);

/// `samples` different points. Each takes one of the spaces and in it one value of each list, choice and
/// range, all equally likely; a range over whole numbers ("batch", "epochs", ...) gives whole numbers, others
/// have four significant digits. Without ranges, points of the grid, each equally likely. The same seed draws
/// the same, and the first points stay when more are drawn. Throws FormatError if there are not so many
/// different points, unless `fewer` will do; and for a range that is empty or, logarithmic, does not start
/// above 0.
std::vector<Point> draw(const std::vector<Space> &spaces, std::size_t samples, std::uint64_t seed, bool fewer,
                        const std::string &origin);

/// True if some field is a range, so that there is no grid.
bool has_ranges(const std::vector<Space> &spaces);

} // namespace tl::select
