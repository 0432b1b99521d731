// What this process has of the machine's memory now.
#pragma once

#include <cstdint>

namespace tl {

/// Bytes that belong to this process alone. Mapped files do not count: their pages are the system's cache.
std::int64_t own_memory();

/// Bytes of the pages of its program and libraries that it uses together with others that run them.
std::int64_t library_memory();

/// Lets the process take at most so many bytes more than it has now; allocations beyond that fail. For a
/// process whose size does not depend on itself alone.
void limit_memory(std::int64_t more);

} // namespace tl
