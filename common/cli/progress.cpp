#include "cli/progress.h"

#include "cli/log.h"

#include <cstdio>
#include <unistd.h>

namespace tl::cli {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::string label, std::uint64_t total)
    : label_(std::move(label)), total_(total), active_(!quiet() && isatty(STDERR_FILENO)),
      start_(Clock::now()), drawn_(start_) {}

Progress::~Progress() {
  if (active_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(std::uint64_t by) {
  done_ += by;
  if (!active_ || Clock::now() - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = Clock::now();
  draw();
}

void Progress::draw() {
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  if (total_ > 0) {
    const double left = rate > 0 ? static_cast<double>(total_ - done_) / rate : 0;
    std::fprintf(stderr, "\r\033[K%s %llu/%llu  %.0f/s  %s left", label_.c_str(),
                 static_cast<unsigned long long>(done_), static_cast<unsigned long long>(total_), rate,
                 human_seconds(left).c_str());
  } else {
    std::fprintf(stderr, "\r\033[K%s %llu  %.0f/s", label_.c_str(), static_cast<unsigned long long>(done_),
                 rate);
  }
  std::fflush(stderr);
}

} // namespace tl::cli
