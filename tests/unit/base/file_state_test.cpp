#include "runtime/file_state.h"

#include "support/files.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace tl;

TEST_CASE("a file's state changes with its bytes, with what stands in its place, and by nothing else") {
  const test::TempFolder folder;
  const std::string path = folder.write("a", "some");
  const auto before = file_state(path);
  REQUIRE(before);
  CHECK(before->bytes == 4);
  CHECK(file_state(path) == before);
  folder.write("b", "some");
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(folder.path("b"), time);
  std::filesystem::rename(folder.path("b"), path); // as long, as old, and another file
  CHECK(file_state(path) != before);
  const auto second = file_state(path);
  folder.write("a", "same");
  std::filesystem::last_write_time(path, time); // told to be as old as it was
  CHECK(file_state(path)->modified_ns == second->modified_ns);
  CHECK(!settled(*file_state(path), now_ns()));
  CHECK(!file_state(folder.path("none")));
  CHECK(!file_state(folder.path()));
}

TEST_CASE("a file that was just written, or will be, is not settled") {
  const std::int64_t second = 1'000'000'000, now = 100 * second;
  CHECK(settled({1, now - 3 * second, now - 3 * second, 1}, now));
  CHECK(!settled({1, now - second, now - 9 * second, 1}, now));
  CHECK(!settled({1, now - 9 * second, now - second, 1}, now));
  CHECK(!settled({1, now + 9 * second, now - 9 * second, 1}, now));
}
