// The files through which concurrent jobs on one host agree on its memory, below one folder:
//
//   budget             the host's budget in bytes, as a decimal number or a size such as 4G; one line
//   lock               locked for the moment in which somebody reads all leases and changes its own
//   NUMBER-PID.lease   one job, in order of arrival; a JSON document (schemas/lease.schema.json)
//
// A job keeps its lease locked (flock) for as long as it lives, and the kernel undoes that whatever ends it:
// a lease that can be locked belongs to nobody. No lease is trusted for longer than the lock is held.
#pragma once

#include "cli/io.h"
#include "lease/allocation.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tl::lease {

enum class State {
  waiting,  // in order of arrival, for memory to start in
  starting, // loads its model and measures; never more than one job at a time
  running
};

/// What one job says of itself.
struct Entry {
  std::uint64_t number = 0; // of arrival
  std::int64_t pid = 0;
  State state = State::waiting;
  std::int64_t held = 0;   // bytes that it may use now
  std::int64_t shared = 0; // bytes of program and libraries, which all processes use together
  std::int64_t loaded = 0; // bytes of its own when its libraries were loaded; 0 before that
  std::int64_t batch = 0;  // of records; 0 until it runs
  Demand demand;           // until the job is measured: what starting takes, in `fixed`
};

/// The folder that programs use when none is given: /run/tl-tools where that can be written to (root makes
/// it), or tl-tools in $XDG_RUNTIME_DIR. Throws UsageError if there is neither.
std::string default_folder();

/// The leases of one folder, seen by one job. Not thread-safe.
class Directory {
public:
  /// Makes the folder if it is not there. Throws SystemError.
  explicit Directory(std::string folder);

  /// While it lives, no other job reads or changes a lease. Waits for its turn; throws Interrupted.
  class Turn {
  public:
    explicit Turn(const Directory &directory);
    ~Turn();
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;

  private:
    int fd_;
  };

  /// In a turn: the leases of all jobs that live, in order of arrival; removes the others. Throws FormatError
  /// for a lease that cannot be understood.
  std::vector<Entry> read();
  /// In a turn: the budget in bytes, or 0 if none was set. Throws FormatError.
  std::int64_t budget() const;
  void set_budget(std::int64_t bytes);

  /// In a turn: makes and locks a lease, whose number becomes the next one.
  void join(Entry &self, const std::vector<Entry> &others);
  /// In a turn: takes over what join() made in the program that this process was before: its lease, and the
  /// descriptor that has it locked. Throws Error if the descriptor is no lease of this folder.
  Entry adopt(cli::Descriptor lease);
  /// The descriptor of the lease, which the next program of this process will get. Throws SystemError.
  int inherit() const;
  /// In a turn: replaces what join() wrote.
  void write(const Entry &self);
  /// Gives the lease up. Never throws.
  void leave() noexcept;

  /// Sleeps until a lease may have changed, at most 200 ms. Throws Interrupted, and ClosedPipe when the
  /// output is watched and the reader of stdout has gone away.
  void wait(bool output_watched);

  const std::string &folder() const { return folder_; }

private:
  struct Parsed {
    std::string text;
    Entry entry;
  };
  std::string path(const std::string &name) const { return folder_ + "/" + name; }
  const Entry *parse(int fd, const std::string &name, std::uint64_t number);

  std::string folder_;
  cli::Descriptor lock_, changes_, lease_;
  std::string lease_path_;
  std::map<std::uint64_t, Parsed> parsed_; // most leases are as they were at the last look
};

} // namespace tl::lease
