#include "lease/lease.h"

#include "cli/error.h"
#include "cli/log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace tl::lease {

namespace {
// Number of the descriptor that has the lease locked, from one program of a process to its next.
constexpr const char *kInherited = "TL_LEASE_DESCRIPTOR";

std::string bytes(std::int64_t count) { return cli::human_bytes(static_cast<double>(count)); }
} // namespace

/// All leases at one moment.
struct Lease::View {
  std::vector<Entry> entries; // in order of arrival
  std::size_t self = 0;       // in them
  std::int64_t usable = 0;    // bytes for what belongs to single processes
  std::int64_t free = 0;      // of those, beyond what all hold
  std::int64_t loaded = 0;    // bytes of a process that has loaded its libraries; 0 if that is not known
  bool alone = true;          // no other job has started

  /// The batch that is due to this job; 0: it must wait.
  std::int64_t target() const {
    std::vector<Demand> demands;
    std::size_t started = 0;
    for (const Entry &entry : entries) {
      demands.push_back(entry.demand);
      if (entry.state != State::waiting) ++started;
    }
    return allocate(demands, started, usable)[self];
  }

  /// Nobody starts, and nobody who came earlier waits.
  bool is_next() const {
    for (std::size_t i = 0; i < entries.size(); ++i)
      if ((i != self && entries[i].state == State::starting) ||
          (i < self && entries[i].state == State::waiting))
        return false;
    return true;
  }
};

Lease::Lease(const Options &options) : directory_(options.folder), output_watched_(options.output_watched) {
  self_.pid = ::getpid();
  self_.held = self_.demand.idle = self_.demand.fixed = options.idle;
  self_.shared = options.shared;
  const Directory::Turn turn(directory_);
  const std::vector<Entry> others = directory_.read();
  agree_on_budget(options.budget, others.empty());
  directory_.join(self_, others);
}

Lease::Lease(const Options &options, cli::Descriptor inherited)
    : directory_(options.folder), output_watched_(options.output_watched) {
  const Directory::Turn turn(directory_);
  self_ = directory_.adopt(std::move(inherited));
  self_.loaded = options.idle;
  self_.held = std::max(self_.held, options.idle); // it has the memory, whatever was known before
  self_.shared = options.shared;
  budget_ = directory_.budget();
  directory_.write(self_);
}

std::unique_ptr<Lease> Lease::resume(const Options &options) {
  const char *const inherited = std::getenv(kInherited);
  if (!inherited) return std::make_unique<Lease>(options);
  int descriptor = -1;
  const char *const end = inherited + std::strlen(inherited);
  if (std::from_chars(inherited, end, descriptor).ptr != end || descriptor <= STDERR_FILENO)
    throw UsageError(std::string(kInherited) + "=" + inherited + " is for the programs themselves; unset it");
  ::unsetenv(kInherited);
  return std::unique_ptr<Lease>(new Lease(options, cli::Descriptor(descriptor)));
}

void Lease::pass_on() const {
  if (::setenv(kInherited, std::to_string(directory_.inherit()).c_str(), 1) != 0)
    throw SystemError("pass on a lease", errno);
}

Lease::~Lease() { directory_.leave(); }

void Lease::agree_on_budget(std::int64_t wanted, bool alone) {
  budget_ = directory_.budget();
  if (wanted == 0 && budget_ == 0)
    throw UsageError(directory_.folder() + ": nobody has set a budget; give --memory-budget SIZE");
  if (wanted == 0 || wanted == budget_) return;
  if (!alone)
    throw Error(
        directory_.folder() + ": the jobs here share " + bytes(budget_) + ", not " + bytes(wanted) +
        "; give the same --memory-budget, leave it out, or write the new one into the file 'budget' there");
  directory_.set_budget(wanted);
  budget_ = wanted;
}

/// In a turn.
Lease::View Lease::look() {
  View view;
  view.entries = directory_.read();
  if (const std::int64_t budget = directory_.budget()) budget_ = budget; // an admin may change it at any time
  std::int64_t shared = 0, reserve = 0, held = 0;
  view.self = view.entries.size();
  for (std::size_t i = 0; i < view.entries.size(); ++i) {
    const Entry &entry = view.entries[i];
    if (entry.number == self_.number)
      view.self = i;
    else if (entry.state != State::waiting)
      view.alone = false;
    shared = std::max(shared, entry.shared);
    reserve = std::max(reserve, entry.demand.idle);
    view.loaded = std::max(view.loaded, entry.loaded);
    held += entry.held;
  }
  if (view.self == view.entries.size())
    throw Error(directory_.folder() + ": the lease of this job was removed by somebody");
  view.usable = budget_ - shared - reserve;
  view.free = view.usable - held;
  return view;
}

/// The others make room for what is known so far.
void Lease::announce() {
  const Directory::Turn turn(directory_);
  directory_.write(self_);
}

void Lease::refuse_impossible(const View &view, std::int64_t needed) const {
  if (needed <= view.usable) return;
  throw Error("this job needs " + bytes(needed + budget_ - view.usable) +
              " at least, and all jobs of this host " + "together may use " + bytes(budget_) + " (" +
              directory_.folder() + "); raise --memory-budget");
}

void Lease::report_wait(const View &view, std::int64_t needed, const Stopwatch &waited) {
  // What others are about to give back is not worth a line.
  if (wait_reported_ || (view.target() > 0 && waited.seconds() < 1)) return;
  wait_reported_ = true;
  std::string holders;
  std::size_t before = 0;
  for (std::size_t i = 0; i < view.entries.size(); ++i) {
    const Entry &entry = view.entries[i];
    if (i == view.self) continue;
    if (entry.state == State::waiting) {
      before += i < view.self ? 1 : 0;
      continue;
    }
    holders += (holders.empty() ? "" : ", ") + std::string("process ") + std::to_string(entry.pid) +
               " holds " + bytes(entry.held);
    if (entry.batch > 0) holders += " for batches of " + std::to_string(entry.batch);
  }
  cli::note("waits for " + bytes(needed) + " of the " + bytes(budget_) +
            " that the jobs of this host share: " + (holders.empty() ? "nobody runs" : holders) + "; " +
            std::to_string(before) + " wait before it");
}

void Lease::load() {
  {
    const Directory::Turn turn(directory_);
    self_.demand.fixed = std::max(look().loaded, self_.demand.idle);
    directory_.write(self_);
  }
  wait_to_start(/*refuse=*/false); // what others needed may be more than this one will
}

void Lease::start(std::int64_t needed) {
  self_.demand.fixed = std::max(needed, self_.held);
  announce();
  wait_to_start(/*refuse=*/true);
}

void Lease::wait_to_start(bool refuse) {
  const Stopwatch waited;
  for (;; directory_.wait(output_watched_)) {
    const Directory::Turn turn(directory_);
    const View view = look();
    if (refuse) refuse_impossible(view, self_.demand.fixed);
    const bool fits = view.target() > 0 && self_.demand.fixed - self_.held <= view.free;
    if (view.is_next() && (view.alone || fits)) {
      self_.state = State::starting;
      self_.held = self_.demand.fixed;
      directory_.write(self_);
      return;
    }
    report_wait(view, self_.demand.fixed, waited);
  }
}

std::int64_t Lease::run(const Demand &demand, std::int64_t shared) {
  const std::int64_t idle = self_.demand.idle;
  self_.demand = demand;
  self_.demand.idle = idle;
  self_.shared = std::max(self_.shared, shared);
  announce();
  const Stopwatch waited;
  for (;; directory_.wait(output_watched_)) {
    const Directory::Turn turn(directory_);
    const View view = look();
    const std::int64_t least = self_.demand.memory(self_.demand.least);
    refuse_impossible(view, least);
    std::int64_t fitting = self_.demand.fitting(self_.held + view.free);
    if (view.alone) fitting = std::max(fitting, self_.demand.least); // those that wait cannot make room
    if (fitting > 0) {
      self_.state = State::running;
      self_.batch = std::clamp(view.target(), self_.demand.least, fitting);
      self_.held = self_.demand.memory(self_.batch);
      directory_.write(self_);
      return self_.batch;
    }
    report_wait(view, least, waited);
  }
}

std::int64_t Lease::adapt(std::int64_t needed) {
  const Directory::Turn turn(directory_);
  const View view = look();
  const Entry before = self_;
  settle(view, needed);
  if (self_.batch != before.batch || self_.held != before.held || self_.demand.fixed != before.demand.fixed)
    directory_.write(self_);
  return self_.batch;
}

void Lease::settle(const View &view, std::int64_t needed) {
  if (needed > self_.held) {
    // It has the memory, allowed or not: all others must count with it.
    if (!shrinking()) self_.demand.fixed += needed - self_.demand.memory(self_.batch);
    self_.held = needed;
    return;
  }
  const std::int64_t target = view.target();
  if (target < self_.batch) {
    self_.batch = target;
  } else if (target > self_.batch && !shrinking()) {
    self_.batch = std::max(self_.batch, std::min(target, self_.demand.fitting(self_.held + view.free)));
    self_.held = std::max(self_.held, self_.demand.memory(self_.batch));
    return;
  }
  if (shrinking()) self_.held = std::max(needed, self_.demand.memory(self_.batch));
}

} // namespace tl::lease
