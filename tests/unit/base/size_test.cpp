#include "cli/app.h"

#include <doctest/doctest.h>

#include <string>

TEST_CASE("sizes in bytes: binary prefixes, fractions, nothing else") {
  const CLI::Validator size = tl::cli::size_in_bytes();
  const auto bytes = [&](std::string text) {
    const std::string wrong = size(text);
    return wrong.empty() ? text : "wrong";
  };
  CHECK(bytes("0") == "0");
  CHECK(bytes("1500") == "1500");
  CHECK(bytes("64k") == "65536");
  CHECK(bytes("64K") == "65536");
  CHECK(bytes("64KiB") == "65536");
  CHECK(bytes("64kB") == "65536");
  CHECK(bytes("10B") == "10");
  CHECK(bytes("1.5G") == "1610612736");
  CHECK(bytes("2T") == "2199023255552");
  for (const char *text :
       {"", "-5", "-1k", "x", "k", "5x", "5 k", "5kk", "5kBB", "5i", "nan", "inf", "1e30", "9999999T"})
    CHECK_MESSAGE(bytes(text) == "wrong", text);
}
