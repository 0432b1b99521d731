// Training in the order of contents: names change nothing.
#include "support/photos.h"
#include "train/sources.h"

#include "cli/error.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;

namespace {

std::vector<std::string> arrival(const std::string &folder, std::uint64_t seed) {
  train::SourceOptions options;
  options.order = seed;
  const auto source = train::dataset_source(data::Dataset::open(folder),
                                            data::parse_preprocess("raw,resize=4x4"), 0, options);
  std::vector<std::string> hashes;
  while (const auto chunk = source->next(4))
    for (const train::RecordInfo &record : chunk->records) hashes.push_back(record.hash.hex());
  return hashes;
}

} // namespace

TEST_CASE("records arrive in the order of their contents when that is asked for") {
  const test::Photos photos, renamed;
  for (unsigned i = 0; i < 9; ++i) {
    photos.add((i % 2 ? "cat/" : "dog/") + std::to_string(i) + ".ppm", i);
    renamed.add((i % 2 ? "cat/" : "dog/") + std::string(9 - i, 'x') + ".ppm", i);
  }
  const std::vector<std::string> order = arrival(photos.root(), 5);
  CHECK(order == arrival(renamed.root(), 5));
  CHECK(order != arrival(photos.root(), 6));
  std::vector<std::uint64_t> ranks;
  for (const std::string &hash : order) ranks.push_back(mix(5, Digest::from_hex(hash)));
  CHECK(ranks.size() == 9);
  CHECK(std::is_sorted(ranks.begin(), ranks.end()));
}
