// What a test has cost, so that it can bound it whatever else the machine does.
#pragma once

#include <ctime>

namespace tl::test {

/// Of this process, since `since`, which std::clock() gave.
inline double cpu_seconds(std::clock_t since) {
  return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

} // namespace tl::test
