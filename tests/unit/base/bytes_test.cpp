#include "json/bytes.h"

#include "cli/error.h"
#include "cli/utf8.h"

#include <doctest/doctest.h>

#include <string>

using namespace tl;

TEST_CASE("UTF-8: exactly the sequences of Unicode are valid") {
  for (const char *good : {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "caf\xc3\xa9"})
    CHECK_MESSAGE(cli::is_utf8(good), good);
  for (const char *bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "a\xc3("})
    CHECK_MESSAGE(!cli::is_utf8(bad), bad);
}

TEST_CASE("bytes cross JSON text without loss and without ambiguity") {
  CHECK(json::escape_bytes("caf\xc3\xa9/a b.png") == "caf\xc3\xa9/a b.png");
  CHECK(json::escape_bytes("\xff") == "\\xff");
  CHECK(json::escape_bytes("\\xff") == "\\x5cxff");
  for (int first = 0; first < 256; ++first)
    for (const int second : {0, 0x5C, 0x78, 0x80, 0xA0, 0xC3, 0xFF}) {
      const std::string bytes{static_cast<char>(first), static_cast<char>(second)};
      const std::string text = json::escape_bytes(bytes);
      CHECK(cli::is_utf8(text));
      CHECK(json::unescape_bytes(text) == bytes);
    }
  for (const char *bad : {"\\", "\\x", "\\xf", "\\xfg", "\\n", "\\x5C", "a\\X41"})
    CHECK_THROWS_AS(json::unescape_bytes(bad), FormatError);
}
