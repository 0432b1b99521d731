// One job's share of the memory of its host.
#pragma once

#include "lease/directory.h"
#include "runtime/clock.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tl::lease {

struct Options {
  std::string folder;         // where the jobs of the host meet
  std::int64_t budget = 0;    // bytes of the host for all jobs; 0: what the folder says
  std::int64_t idle = 0;      // bytes that this process has now
  std::int64_t shared = 0;    // bytes of its program and libraries
  bool output_watched = true; // waiting ends when the reader of stdout goes away
};

/// The way of a job: it arrives, waits until it may load its libraries, then until it may start, measures
/// what it needs, waits until there is room for that, and then asks before each batch how large that may be.
///
/// Many jobs may wait, so they do it before they load LibTorch, which is tens of megabytes of each process's
/// own: the program that waits is small, and becomes the one that works. The lease stays with the process.
///
/// At no moment do the jobs hold more than the budget together. Who needs less gives back what it has freed;
/// who may have more takes it when the others have given it back. Room for one more process is always left
/// free, for the one that arrives next. Only one job starts at a time: while it loads and measures, what it
/// will need is unknown, and two that hold memory and wait for more would wait for each other.
///
/// Not thread-safe.
class Lease {
public:
  /// Joins. The first job of a folder sets its budget; a later one that wants another is refused with an
  /// Error for as long as there is any job. Throws UsageError if nobody said what the budget is.
  explicit Lease(const Options &options);
  /// Takes over the lease of the program that this process was before, where there is one, else joins.
  static std::unique_ptr<Lease> resume(const Options &options);
  ~Lease();
  Lease(const Lease &) = delete;
  Lease &operator=(const Lease &) = delete;

  /// Waits until all that came before have started, and there is room for what loading its libraries takes,
  /// as far as other jobs have found that out. Throws Interrupted, ClosedPipe.
  void load();

  /// Before this process becomes another program, which finds the lease by resume().
  void pass_on() const;

  /// Waits until so many bytes are free for it to start with, and all that came before have started. Throws
  /// Error if the budget is too small for this job alone, Interrupted, ClosedPipe.
  void start(std::int64_t bytes);

  /// Now measured: waits until there is room for its smallest batch. Returns its first batch, in records.
  /// `shared` replaces what Options said. Throws as start() does.
  std::int64_t run(const Demand &demand, std::int64_t shared);

  /// Between two batches: the batch to use from now on. `needed`: the most bytes that the process has or will
  /// have until it asks again, if the batch stays as it is. While shrinking() it gives back what it holds
  /// beyond that. More than it holds means that the measured demand was too small; it is raised.
  std::int64_t adapt(std::int64_t needed);

  std::int64_t batch() const { return self_.batch; }
  std::int64_t held() const { return self_.held; }
  /// True while it holds more than its batch needs: it has yet to free what larger batches took.
  bool shrinking() const { return self_.held > self_.demand.memory(self_.batch); }
  std::int64_t budget() const { return budget_; }
  const std::string &folder() const { return directory_.folder(); }

private:
  struct View;
  Lease(const Options &options, cli::Descriptor inherited);
  View look();
  void agree_on_budget(std::int64_t wanted, bool alone);
  void announce();
  void refuse_impossible(const View &view, std::int64_t bytes) const;
  void report_wait(const View &view, std::int64_t bytes, const Stopwatch &waited);
  void wait_to_start(bool refuse);
  void settle(const View &view, std::int64_t needed);

  Directory directory_;
  Entry self_;
  const bool output_watched_;
  std::int64_t budget_ = 0;
  bool wait_reported_ = false;
};

} // namespace tl::lease
