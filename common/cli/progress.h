#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tl::cli {

/// A one-line progress report on stderr, drawn only when stderr is a terminal and not --quiet.
class Progress {
public:
  /// `total` 0: unknown.
  Progress(std::string label, std::uint64_t total);
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  ~Progress();
  void advance(std::uint64_t by = 1);

private:
  void draw();
  std::string label_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  bool active_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

} // namespace tl::cli
