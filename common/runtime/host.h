// What of the machine this process may use: affinity and control groups count.
#pragma once

#include <cstdint>

namespace tl {

int usable_cores();
std::int64_t usable_memory();

} // namespace tl
