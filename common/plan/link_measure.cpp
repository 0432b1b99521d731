#include "cli/error.h"
#include "cli/io.h"
#include "plan/link.h"
#include "runtime/clock.h"
#include "runtime/spawn.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tl::plan {

namespace {

constexpr const char *kReady = "tl-link-ready\n";
constexpr int kRoundTrips = 15;
constexpr double kPatience = 60; // seconds: a person may have to type a password
constexpr double kWarmUp = 0.3;  // seconds: TCP slow start

// One line: a shell may read its script in blocks, so nothing else may be on its way to it yet. It
// answers each line until an empty one, then sends a block of random bytes again and again (drawing
// each anew would measure the generator) until we close the pipe.
constexpr const char *kScript =
    "echo tl-link-ready; while IFS= read -r l && [ -n \"$l\" ]; do echo \"$l\"; done; "
    "f=$(mktemp) && { head -c 1048576 /dev/urandom >\"$f\"; i=0; "
    "while [ $i -lt 1048576 ] && cat \"$f\"; do i=$((i+1)); done 2>/dev/null; rm -f \"$f\"; }; exit\n";

/// A shell at the other end, its stdin and stdout here, its stderr ours.
class Remote {
public:
  explicit Remote(const std::string &command) : command_(command) {
    std::array<int, 2> to{}, from{};
    if (pipe2(to.data(), O_CLOEXEC) != 0) throw SystemError("make a pipe", errno);
    cli::Descriptor child_in(to[0]);
    in_ = cli::Descriptor(to[1]);
    if (pipe2(from.data(), O_CLOEXEC) != 0) throw SystemError("make a pipe", errno);
    cli::Descriptor child_out(from[1]);
    out_ = cli::Descriptor(from[0]);
    pid_ = spawn("/bin/sh", {"sh", "-c", command + " sh"},
                 {{child_in.get(), STDIN_FILENO}, {child_out.get(), STDOUT_FILENO}}, command);
  }
  Remote(const Remote &) = delete;
  Remote &operator=(const Remote &) = delete;

  /// Closes the pipes, which ends the script; a child that stays on is told to go.
  ~Remote() {
    in_ = cli::Descriptor();
    out_ = cli::Descriptor();
    for (int tries = 0; pid_ > 0; ++tries) {
      if (waitpid(pid_, nullptr, tries < 200 ? WNOHANG : 0) != 0) return;
      if (tries == 100) kill(pid_, SIGTERM);
      if (tries == 199) kill(pid_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void send(const std::string &text) {
    try {
      cli::write_full(in_.get(), text.data(), text.size(), command_);
    } catch (const ClosedPipe &) {
      ended();
    }
  }

  /// Some bytes, at least one. Throws Error at the end of the output or after `patience` seconds.
  std::size_t receive(char *buffer, std::size_t size, double patience = kPatience) {
    const Stopwatch watch;
    for (;;) {
      check_interrupt();
      pollfd waiting = {out_.get(), POLLIN, 0};
      const int ready = poll(&waiting, 1, 100);
      if (ready < 0 && errno != EINTR) throw SystemError("wait for " + command_, errno);
      if (ready > 0) {
        const ssize_t n = ::read(out_.get(), buffer, size);
        if (n > 0) return static_cast<std::size_t>(n);
        if (n == 0) ended();
        if (errno != EINTR) throw SystemError("read from " + command_, errno);
      }
      if (watch.seconds() > patience)
        throw Error("link '" + command_ + "': no answer for " + std::to_string(static_cast<int>(patience)) +
                    " seconds; does this work: echo echo yes | " + command_ + " sh");
    }
  }

  std::string receive_line() {
    std::string line;
    char c = 0;
    while (line.size() < 4096 && c != '\n') {
      receive(&c, 1);
      line += c;
    }
    return line;
  }

private:
  [[noreturn]] void ended() const {
    throw Error("link '" + command_ + "': the command ended early; does this work: echo echo yes | " +
                command_ + " sh");
  }

  std::string command_;
  cli::Descriptor in_, out_;
  pid_t pid_ = -1;
};

double measure_round_trip(Remote &remote) {
  std::vector<double> times;
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::string ping = "tl-ping-" + std::to_string(i) + "\n";
    const Stopwatch watch;
    remote.send(ping);
    if (remote.receive_line() != ping)
      throw Error("link: the other end answered something else; is it a shell?");
    times.push_back(watch.seconds());
  }
  std::nth_element(times.begin(), times.begin() + kRoundTrips / 2, times.end());
  return times[kRoundTrips / 2];
}

double measure_bandwidth(Remote &remote, double seconds) {
  std::vector<char> block(1 << 18);
  remote.send("\n");
  remote.receive(block.data(), block.size());
  Stopwatch watch;
  while (watch.seconds() < kWarmUp) remote.receive(block.data(), block.size());
  watch.restart();
  double bytes = 0, last = 0;
  do {
    bytes += static_cast<double>(remote.receive(block.data(), block.size()));
    last = watch.seconds();
  } while (last < seconds);
  return bytes / last;
}

} // namespace

LinkProfile measure_link(const std::string &command, double seconds) {
  Remote remote(command);
  remote.send(kScript);
  for (int lines = 0; remote.receive_line() != kReady; ++lines) // a login message may come first
    if (lines > 1000) throw Error("link '" + command + "': no shell answers; does it run its last argument?");
  LinkProfile link;
  link.command = command;
  link.round_trip = measure_round_trip(remote);
  link.bandwidth = measure_bandwidth(remote, seconds);
  return link;
}

} // namespace tl::plan
