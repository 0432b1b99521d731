#include "runtime/allocation.h"

#include <doctest/doctest.h>

#include <cstring>
#include <malloc.h>
#include <memory>

using namespace tl;

// The sanitizers bring an allocator of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a large block that was freed stays with the process") {
  keep_freed_memory();
  constexpr std::size_t kBytes = std::size_t{100} << 20;
  const std::size_t mapped_before = mallinfo2().hblks;
  {
    const std::unique_ptr<char[]> block(new char[kBytes]);
    std::memset(block.get(), 1, kBytes);
    CHECK(block[kBytes / 2] == 1);
    CHECK(mallinfo2().hblks == mapped_before); // not a mapping of its own, which free() would give back
  }
  CHECK(mallinfo2().fordblks >= kBytes);
}
#endif
