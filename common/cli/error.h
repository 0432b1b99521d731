// Exceptions that cross the toolkit, and the exit status each one becomes.
//
// Library code throws; nothing below tools/ prints or exits. cli::run() (app.h) is the one place
// that turns an exception into a line on stderr and a status.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

namespace tl {

enum class ExitCode : int {
  ok = 0,
  failed = 1,        // the work could not be done
  usage = 2,         // the command line is wrong
  skipped = 3,       // done, but some records were skipped (--keep-going)
  interrupted = 130, // SIGINT or SIGTERM
  closed_pipe = 141, // the reader of our output went away
};

/// Anything a user can cause or must know about. `what()` is one line: place, what is wrong, what
/// to do; the program's name is added when it is printed.
class Error : public std::runtime_error {
public:
  explicit Error(const std::string &message, ExitCode code = ExitCode::failed)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

private:
  ExitCode code_;
};

/// The command line asks for something impossible or contradictory.
class UsageError : public Error {
public:
  explicit UsageError(const std::string &message) : Error(message, ExitCode::usage) {}
};

/// A file or stream is not what it should be: truncated, corrupt, of another format or version.
class FormatError : public Error {
public:
  using Error::Error;
};

/// A system call failed; the message carries strerror(errno).
class SystemError : public Error {
public:
  /// `what` names the action and the file: "write /mnt/x.safetensors".
  SystemError(const std::string &what, int errno_value);
};

/// The reader of our stdout closed it. Ends the program quietly.
class ClosedPipe : public Error {
public:
  ClosedPipe() : Error("the reader of stdout closed it", ExitCode::closed_pipe) {}
};

/// SIGINT or SIGTERM arrived; thrown by check_interrupt() so that destructors clean up.
class Interrupted : public Error {
public:
  Interrupted() : Error("interrupted", ExitCode::interrupted) {}
};

/// True once SIGINT or SIGTERM has arrived.
bool interrupted() noexcept;

/// Throws Interrupted if interrupted(), or if this thread's CancelScope was cancelled. Every loop over
/// records and every blocking read calls it.
void check_interrupt();

/// Lets one thread end the work of another: while it lives, check_interrupt() in the thread that made
/// it throws Interrupted as soon as the flag is set.
class CancelScope {
public:
  explicit CancelScope(const std::atomic<bool> &cancelled);
  CancelScope(const CancelScope &) = delete;
  CancelScope &operator=(const CancelScope &) = delete;
  ~CancelScope();

private:
  const std::atomic<bool> *outer_;
};

} // namespace tl
