// How the jobs on one host divide its memory: which of them run, and with batches of how many records.
//
// The memory of a job with batches of b records is measured, and linear: fixed + b * per_record. Its time for
// a batch is linear too, so its throughput is b / (b + h) of what it would be without bound, with h the batch
// at which half of that is reached. What counts is the throughput relative to the batch that the job asked
// for: all jobs should lose the same share of their speed. So the smallest relative throughput is maximised,
// then the next ones, by progressive filling: the common level is raised as far as memory goes (a bisection),
// a job that cannot take one more record is fixed there, and the others are raised further with what is left.
//
// Maximising the sum of bytes or records in place of the minimum is a linear program whose solutions are
// vertices: all but one job at a bound, most at the lower one. Equal shares of memory would starve the
// networks that need much of it for a record.
#pragma once

#include <cstdint>
#include <vector>

namespace tl::lease {

/// Bytes count what belongs to one process; what all processes share is the caller's to subtract.
struct Demand {
  std::int64_t idle = 0;       // bytes while it waits
  std::int64_t fixed = 0;      // bytes while it runs, whatever the batch
  std::int64_t per_record = 0; // bytes
  std::int64_t least = 1;      // records; the smallest batch that it runs with
  std::int64_t wanted = 1;     // records; at least `least`
  double half_batch = 0;       // records; see above. 0: its throughput hardly depends on the batch

  /// Bytes with batches of so many records.
  std::int64_t memory(std::int64_t batch) const;
  /// Largest batch up to `wanted` that needs at most so many bytes; 0 if `least` needs more.
  std::int64_t fitting(std::int64_t bytes) const;
};

/// Throughput with this batch over that with `wanted`, between 0 and 1. Rises strictly with the batch: h is
/// taken to be `wanted` / 64 at least, so that memory nobody needs is still divided evenly.
double relative_throughput(const Demand &demand, std::int64_t batch);

/// Batches of the jobs, which are in order of arrival; 0: must wait. The first `running` jobs are never told
/// to wait. Of the others, as many run as fit at their smallest batches beside the idle memory of those that
/// wait; none overtakes another. The first job runs if it fits alone, whatever waits behind it.
std::vector<std::int64_t> allocate(const std::vector<Demand> &jobs, std::size_t running, std::int64_t bytes);

} // namespace tl::lease
