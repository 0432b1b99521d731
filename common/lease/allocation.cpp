#include "lease/allocation.h"

#include <algorithm>
#include <limits>

namespace tl::lease {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr int kHalvings = 60; // of the level of throughput: beyond what a double can tell apart

/// The sum, or the largest number: demands come from files.
std::int64_t add(std::int64_t a, std::int64_t b) { return a > kMost - b ? kMost : a + b; }

/// Smallest batch that reaches the level.
std::int64_t batch_at(const Demand &job, double level) {
  std::int64_t low = job.least, high = job.wanted;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (relative_throughput(job, middle) >= level)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Progressive filling of the jobs [0, count), whose smallest batches fit into `bytes` together.
class Filling {
public:
  Filling(const std::vector<Demand> &jobs, std::size_t count, std::int64_t bytes)
      : jobs_(jobs), bytes_(bytes), batches_(count), fixed_(count, false) {
    for (std::size_t i = 0; i < count; ++i) batches_[i] = jobs[i].least;
  }

  std::vector<std::int64_t> run() {
    while (raise_level() && fix_one()) {
    }
    return std::move(batches_);
  }

private:
  std::vector<std::int64_t> at_level(double level) const {
    std::vector<std::int64_t> batches = batches_;
    for (std::size_t i = 0; i < batches.size(); ++i)
      if (!fixed_[i]) batches[i] = std::max(batches[i], batch_at(jobs_[i], level));
    return batches;
  }

  bool fits(const std::vector<std::int64_t> &batches) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) sum = add(sum, jobs_[i].memory(batches[i]));
    return sum <= bytes_;
  }

  /// Raises all that are not fixed to the highest level that fits. False if that is all they want.
  bool raise_level() {
    double low = 0, high = 1;
    std::vector<std::int64_t> all = at_level(high);
    if (fits(all)) {
      batches_ = std::move(all);
      return false;
    }
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (fits(at_level(middle)) ? low : high) = middle;
    }
    batches_ = at_level(low);
    return true;
  }

  /// Gives single records to the slowest job until it cannot take one more, and fixes it. False if none is
  /// left.
  bool fix_one() {
    for (;;) {
      std::size_t slowest = batches_.size();
      double throughput = 2;
      for (std::size_t i = 0; i < batches_.size(); ++i) {
        if (fixed_[i]) continue;
        const double here = relative_throughput(jobs_[i], batches_[i]);
        if (here < throughput) {
          slowest = i;
          throughput = here;
        }
      }
      if (slowest == batches_.size()) return false;
      std::int64_t &batch = batches_[slowest];
      if (batch < jobs_[slowest].wanted) {
        ++batch;
        if (fits(batches_)) continue;
        --batch;
      }
      fixed_[slowest] = true;
      return true;
    }
  }

  const std::vector<Demand> &jobs_;
  const std::int64_t bytes_;
  std::vector<std::int64_t> batches_;
  std::vector<bool> fixed_;
};

/// How many jobs run, and what they may use together.
struct Admission {
  std::size_t jobs;
  std::int64_t bytes;
};

Admission admit(const std::vector<Demand> &jobs, std::size_t running, std::int64_t bytes) {
  std::int64_t waiting = 0; // bytes
  for (std::size_t i = running; i < jobs.size(); ++i) waiting = add(waiting, jobs[i].idle);
  std::int64_t least = 0;
  std::size_t count = 0;
  for (; count < jobs.size(); ++count) {
    const std::int64_t more = add(least, jobs[count].memory(jobs[count].least));
    if (count >= running) {
      const std::int64_t others = waiting - jobs[count].idle;
      // The first one must go on, or nobody would.
      const bool fits = add(more, others) <= bytes || (count == 0 && more <= bytes);
      if (!fits) break;
      waiting = others;
    }
    least = more;
  }
  return {count, bytes - waiting};
}

} // namespace

std::int64_t Demand::memory(std::int64_t batch) const {
  if (per_record > 0 && batch > (kMost - fixed) / per_record) return kMost;
  return fixed + batch * per_record;
}

std::int64_t Demand::fitting(std::int64_t bytes) const {
  if (memory(least) > bytes) return 0;
  if (per_record <= 0) return wanted;
  return std::clamp((bytes - fixed) / per_record, least, wanted);
}

double relative_throughput(const Demand &demand, std::int64_t batch) {
  const auto wanted = static_cast<double>(demand.wanted), b = static_cast<double>(batch);
  const double half = std::max(demand.half_batch, wanted / 64);
  return (b / (b + half)) / (wanted / (wanted + half));
}

std::vector<std::int64_t> allocate(const std::vector<Demand> &jobs, std::size_t running, std::int64_t bytes) {
  const Admission admission = admit(jobs, running, bytes);
  std::vector<std::int64_t> batches = Filling(jobs, admission.jobs, admission.bytes).run();
  batches.resize(jobs.size(), 0);
  return batches;
}

} // namespace tl::lease
