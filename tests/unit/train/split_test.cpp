// Who validates and in which order the others train depends on content and seed alone.
#include "train/split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace tl;
using train::RecordInfo;

namespace {
std::deque<RecordInfo> records(std::int64_t count) {
  std::deque<RecordInfo> all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back({hash_text("record " + std::to_string(i)), i % 3, "id " + std::to_string(i)});
  return all;
}

std::vector<std::int64_t> everyone(const std::deque<RecordInfo> &all) {
  std::vector<std::int64_t> positions(all.size());
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

std::vector<std::string> ids(const std::deque<RecordInfo> &all, const std::vector<std::int64_t> &positions) {
  std::vector<std::string> found;
  for (const std::int64_t position : positions) found.push_back(all[static_cast<std::size_t>(position)].id);
  return found;
}
} // namespace

TEST_CASE("about the share validates, in every class") {
  for (const double share : {0.0, 0.1, 0.5, 0.9}) {
    std::int64_t found[3] = {};
    for (const RecordInfo &record : records(6000))
      found[record.label] += train::is_validation(record.hash, share, 5);
    for (const std::int64_t count : found) {
      CHECK(static_cast<double>(count) >= 2000 * share - 120);
      CHECK(static_cast<double>(count) <= 2000 * share + 120);
    }
  }
}

TEST_CASE("a larger share keeps those who validated, another seed chooses others") {
  int moved = 0;
  for (const RecordInfo &record : records(500)) {
    if (train::is_validation(record.hash, 0.2, 1)) CHECK(train::is_validation(record.hash, 0.3, 1));
    moved += train::is_validation(record.hash, 0.2, 1) != train::is_validation(record.hash, 0.2, 2);
  }
  CHECK(moved > 50);
}

TEST_CASE("the order of an epoch does not depend on the arrival") {
  const std::deque<RecordInfo> all = records(200);
  std::deque<RecordInfo> other = all;
  std::reverse(other.begin(), other.end());
  std::swap(other[3], other[77]);
  CHECK(ids(all, train::epoch_order(all, everyone(all), 4, 1)) ==
        ids(other, train::epoch_order(other, everyone(other), 4, 1)));
}

TEST_CASE("epochs and seeds have orders of their own, the same each time") {
  const std::deque<RecordInfo> all = records(200);
  const auto first = train::epoch_order(all, everyone(all), 4, 1);
  CHECK(first == train::epoch_order(all, everyone(all), 4, 1));
  CHECK(first != train::epoch_order(all, everyone(all), 4, 2));
  CHECK(first != train::epoch_order(all, everyone(all), 9, 1));
  std::vector<std::int64_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == everyone(all));
}

TEST_CASE("new records do not disturb the order of the others") {
  const std::deque<RecordInfo> few = records(50), more = records(80);
  const auto before = ids(few, train::epoch_order(few, everyone(few), 4, 1));
  auto after = ids(more, train::epoch_order(more, everyone(more), 4, 1));
  after.erase(std::remove_if(after.begin(), after.end(),
                             [&](const std::string &id) {
                               return std::find(before.begin(), before.end(), id) == before.end();
                             }),
              after.end());
  CHECK(after == before);
}

TEST_CASE("records of equal content are ordered by id") {
  std::deque<RecordInfo> twins = {
      {hash_text("x"), 0, "b"}, {hash_text("x"), 0, "a"}, {hash_text("x"), 1, "c"}};
  CHECK(ids(twins, train::epoch_order(twins, everyone(twins), 0, 1)) ==
        std::vector<std::string>{"a", "b", "c"});
}
