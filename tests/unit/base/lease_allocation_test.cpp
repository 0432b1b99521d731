// How jobs divide memory: never too much, nobody starved, nothing left that somebody could use. Held against
// brute force on small cases and against the definitions on large ones.
#include "lease/allocation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace tl::lease;

namespace {

using Batches = std::vector<std::int64_t>;

std::int64_t sum(const std::vector<Demand> &jobs, const Batches &batches) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    total += batches[i] > 0 ? jobs[i].memory(batches[i]) : jobs[i].idle;
  return total;
}

double smallest(const std::vector<Demand> &jobs, const Batches &batches) {
  double least = 1;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    least = std::min(least, relative_throughput(jobs[i], batches[i]));
  return least;
}

class Random {
public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }

private:
  std::mt19937 engine_;
};

Demand job(Random &random, std::int64_t most) {
  Demand demand;
  demand.wanted = random(1, most);
  demand.least = random(1, demand.wanted);
  demand.idle = random(0, 3);
  demand.fixed = demand.idle + random(0, 20);
  demand.per_record = random(0, 9);
  demand.half_batch = random(0, 2) == 0 ? 0 : static_cast<double>(random(1, 40)) / 4;
  return demand;
}

/// The best smallest throughput of all allocations that fit.
double best_smallest(const std::vector<Demand> &jobs, std::int64_t bytes) {
  Batches batches(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) batches[i] = jobs[i].least;
  double best = -1;
  for (;;) {
    if (sum(jobs, batches) <= bytes) best = std::max(best, smallest(jobs, batches));
    std::size_t i = 0;
    for (; i < jobs.size(); ++i) {
      if (batches[i] < jobs[i].wanted) {
        ++batches[i];
        break;
      }
      batches[i] = jobs[i].least;
    }
    if (i == jobs.size()) return best;
  }
}

} // namespace

TEST_CASE("the slowest job is as fast as any allocation can make it") {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<Demand> jobs;
    for (std::int64_t n = random(1, 4); n > 0; --n) jobs.push_back(job(random, 7));
    Batches least;
    for (const Demand &demand : jobs) least.push_back(demand.least);
    const std::int64_t bytes = sum(jobs, least) + random(0, 120);
    const Batches batches = allocate(jobs, 0, bytes);
    CAPTURE(round);
    REQUIRE(sum(jobs, batches) <= bytes);
    CHECK(smallest(jobs, batches) == doctest::Approx(best_smallest(jobs, bytes)).epsilon(1e-12));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      REQUIRE((batches[i] >= jobs[i].least && batches[i] <= jobs[i].wanted));
      const bool more_fits = sum(jobs, batches) + jobs[i].per_record <= bytes;
      CHECK((batches[i] == jobs[i].wanted || !more_fits)); // nothing is left that somebody could use
    }
  }
}

TEST_CASE("who is faster than another could not have helped it with what it has beyond") {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<Demand> jobs;
    for (std::int64_t n = random(2, 16); n > 0; --n) {
      jobs.push_back(job(random, 100000));
      jobs.back().per_record += 1;
    }
    Batches least;
    for (const Demand &demand : jobs) least.push_back(demand.least);
    const std::int64_t bytes = sum(jobs, least) + random(0, 2000000);
    const Batches batches = allocate(jobs, 0, bytes);
    REQUIRE(sum(jobs, batches) <= bytes);
    const std::int64_t left = bytes - sum(jobs, batches);
    for (std::size_t slow = 0; slow < jobs.size(); ++slow) {
      if (batches[slow] == jobs[slow].wanted) continue;
      const double raised = relative_throughput(jobs[slow], batches[slow] + 1);
      for (std::size_t fast = 0; fast < jobs.size(); ++fast) {
        // Lowered to where the slow one would be with one record more, the fast one frees ...
        std::int64_t lower = batches[fast];
        while (lower > jobs[fast].least && relative_throughput(jobs[fast], lower - 1) >= raised) --lower;
        std::int64_t freed = (batches[fast] - lower) * jobs[fast].per_record;
        // ... less than that record takes, but for what the other jobs got of the rest by rounding.
        if (fast != slow)
          CHECK(freed + left < jobs[slow].per_record + 10 * static_cast<std::int64_t>(jobs.size()));
      }
    }
  }
}

TEST_CASE("equal jobs get equal batches, up to one record") {
  for (const std::size_t count : {1, 2, 3, 7, 16}) {
    Demand demand{0, 1000, 37, 1, 500, 8};
    for (std::int64_t bytes = static_cast<std::int64_t>(count) * 1037; bytes < 400000; bytes += 7919) {
      const Batches batches = allocate(std::vector<Demand>(count, demand), 0, bytes);
      const auto [low, high] = std::minmax_element(batches.begin(), batches.end());
      CHECK(*high - *low <= 1);
    }
  }
}

TEST_CASE("more memory never makes the slowest job slower, one more job never makes it faster") {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Demand> jobs;
    Batches least;
    for (std::int64_t n = random(1, 8); n > 0; --n) {
      jobs.push_back(job(random, 300));
      least.push_back(jobs.back().least);
    }
    double before = 0;
    const std::int64_t enough = sum(jobs, least);
    for (std::int64_t bytes = enough; bytes < enough + 5000; bytes += 311) {
      const double now = smallest(jobs, allocate(jobs, 0, bytes));
      CHECK(now >= before);
      before = now;
      std::vector<Demand> fewer = jobs;
      fewer.pop_back();
      if (!fewer.empty()) CHECK(smallest(fewer, allocate(fewer, 0, bytes)) >= now);
    }
  }
}

TEST_CASE("jobs run in order of arrival, as many as fit, and none overtakes") {
  Random random(4);
  for (int round = 0; round < 1000; ++round) {
    std::vector<Demand> jobs;
    for (std::int64_t n = random(1, 10); n > 0; --n) jobs.push_back(job(random, 20));
    const auto running = static_cast<std::size_t>(random(0, static_cast<std::int64_t>(jobs.size())));
    const std::int64_t bytes = random(0, 600);
    const Batches batches = allocate(jobs, running, bytes);
    const auto admitted =
        static_cast<std::size_t>(std::find(batches.begin(), batches.end(), 0) - batches.begin());
    CHECK(std::all_of(batches.begin() + static_cast<std::ptrdiff_t>(admitted), batches.end(),
                      [](std::int64_t batch) { return batch == 0; }));
    CHECK(admitted >= running);
    // What those hold at least that must not be sent back to wait is beyond this algorithm.
    Batches least(jobs.size(), 0);
    for (std::size_t i = 0; i < admitted; ++i) least[i] = jobs[i].least;
    if (sum(jobs, least) <= bytes) CHECK(sum(jobs, batches) <= bytes);
    if (admitted > std::max<std::size_t>(running, 1)) CHECK(sum(jobs, least) <= bytes);
    if (admitted < jobs.size() && admitted > 0) { // the next one would not fit
      least[admitted] = jobs[admitted].least;
      CHECK(sum(jobs, least) > bytes);
    }
  }
}

TEST_CASE("the first job goes on whatever waits behind it, unless it does not fit alone") {
  const Demand first{5, 50, 1, 1, 100, 0};
  const std::vector<Demand> jobs = {first, {60, 70, 1, 1, 10, 0}, {60, 70, 1, 1, 10, 0}};
  CHECK(allocate(jobs, 0, 100) == Batches{1, 0, 0});
  CHECK(allocate(jobs, 0, 50) == Batches{0, 0, 0});
}

TEST_CASE("numbers beyond all memory do not overflow") {
  const std::int64_t most = std::int64_t{1} << 62;
  const Demand huge{most, most, most, 1, std::int64_t{1} << 40, 0};
  CHECK(allocate({huge, huge, huge, huge}, 0, most) == Batches{0, 0, 0, 0});
  CHECK(allocate({huge, huge}, 2, most) == Batches{1, 1});
  CHECK(huge.fitting(most) == 0);
}

TEST_CASE(
    "no job is starved for the sake of one that needs less, as it is by a vertex of the linear program") {
  // Eight jobs, one of which takes a tenth of the others' memory for a record.
  std::vector<Demand> jobs(8, Demand{0, 100, 100, 1, 64, 16});
  jobs[0].per_record = 10;
  const Batches batches = allocate(jobs, 0, 8 * 100 + 100 * 100);
  for (std::size_t i = 1; i < jobs.size(); ++i) CHECK(batches[i] >= 13);
  CHECK(batches[0] >= batches[1]);
}
