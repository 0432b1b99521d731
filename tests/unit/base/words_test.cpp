// Command lines from elsewhere become words, or are refused; no shell ever sees them.
#include "cli/error.h"
#include "cli/words.h"

#include <doctest/doctest.h>

using namespace tl;

using Words = std::vector<std::string>;

TEST_CASE("words are split and unquoted as a shell would") {
  CHECK(cli::split_words("") == Words{});
  CHECK(cli::split_words(" \t ") == Words{});
  CHECK(cli::split_words("tl-extract --plan -  /data/photos\t-o -") ==
        Words{"tl-extract", "--plan", "-", "/data/photos", "-o", "-"});
  CHECK(cli::split_words("'my photos' \"it's\" a\\ b '' \"\" c'd'\"e\"") ==
        Words{"my photos", "it's", "a b", "", "", "cde"});
  CHECK(cli::split_words("'$(rm) `x` ; | > * \\ ~'") == Words{"$(rm) `x` ; | > * \\ ~"});
  CHECK(cli::split_words("\\$HOME \\; a~ a#b") == Words{"$HOME", ";", "a~", "a#b"});
  CHECK(cli::split_words("caf\xc3\xa9 \xff") == Words{"caf\xc3\xa9", "\xff"});
}

TEST_CASE("whatever a shell would act upon is refused") {
  for (const char c : std::string("|&;<>()$`*?[]{}!\n\r")) {
    for (const std::string &line : {std::string(1, c), std::string("a") + c, std::string("a ") + c + " b"}) {
      CAPTURE(line);
      CHECK_THROWS_WITH_AS(cli::split_words(line), doctest::Contains("no shell"), UsageError);
    }
    CHECK(cli::split_words(std::string("'") + c + "'") == Words{std::string(1, c)});
  }
  for (const char *line : {"~/x", "~", "#x", "a #x", "\"$x\"", "\"`x`\"", "\"\\\"", "\\", "a\\\nb"})
    CHECK_THROWS_WITH_AS(cli::split_words(line), doctest::Contains("no shell"), UsageError);
  for (const char *line : {"'", "\"", "a'b", "a \"b"})
    CHECK_THROWS_WITH_AS(cli::split_words(line), doctest::Contains("left open"), UsageError);
  CHECK_THROWS_AS(cli::split_words(std::string("a\0b", 3)), UsageError);
}
