#include "runtime/allocation.h"
#include "runtime/memory_use.h"

#include <doctest/doctest.h>

#include <cstring>
#include <malloc.h>
#include <memory>
#include <new>
#include <sys/wait.h>
#include <unistd.h>

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
  CHECK(own_memory() >= static_cast<std::int64_t>(kBytes));
  give_back_freed_memory();
  CHECK(own_memory() < static_cast<std::int64_t>(kBytes));
}

TEST_CASE("a limit on memory ends an allocation, not the process") {
  const pid_t pid = fork();
  if (pid == 0) {
    limit_memory(64 << 20);
    const std::unique_ptr<char[]> small(new (std::nothrow) char[16 << 20]);
    const std::unique_ptr<char[]> large(new (std::nothrow) char[256 << 20]);
    _exit(small && !large ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}
#endif

TEST_CASE("a process uses its program and libraries, and memory of its own") {
  CHECK(library_memory() > 100'000);
  CHECK(own_memory() > 100'000);
}
