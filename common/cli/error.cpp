#include "cli/error.h"

#include "cli/signals.h"

#include <cerrno>
#include <csignal>
#include <cstring>

namespace tl {

namespace {
volatile std::sig_atomic_t g_interrupted = 0;
thread_local const std::atomic<bool> *t_cancelled = nullptr;

void on_signal(int signum) {
  // A second signal means that the orderly way out takes too long for the user.
  if (g_interrupted) {
    std::signal(signum, SIG_DFL);
    std::raise(signum);
  }
  g_interrupted = 1;
}
} // namespace

SystemError::SystemError(const std::string &what, int errno_value)
    : Error(what + ": " + std::strerror(errno_value)) {}

bool interrupted() noexcept { return g_interrupted != 0; }

void check_interrupt() {
  if (interrupted() || (t_cancelled && *t_cancelled)) throw Interrupted();
}

CancelScope::CancelScope(const std::atomic<bool> &cancelled) : outer_(t_cancelled) {
  t_cancelled = &cancelled;
}

CancelScope::~CancelScope() { t_cancelled = outer_; }

namespace cli {

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0; // no SA_RESTART: a blocked read must return so that the loop can end
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe must unwind the stack, so that temporary files go: EPIPE becomes ClosedPipe.
  std::signal(SIGPIPE, SIG_IGN);
}

} // namespace cli
} // namespace tl
