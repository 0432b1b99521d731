// man/tl-formats.5 is the specification: it must not forget a document or a field.
#include "json/document.h"

#include "cli/io.h"

#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

using namespace tl;

namespace {

std::set<std::string> words(const std::string &text) {
  std::set<std::string> found;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      word += c;
    else
      found.insert(std::exchange(word, ""));
  }
  return found;
}

} // namespace

TEST_CASE("the page of formats has a section for each document that names every field") {
  const std::filesystem::path root(TL_SOURCE_DIR);
  const std::string page = cli::read_file(root / "man/tl-formats.5", 1 << 20);
  int documents = 0;
  for (const auto &entry : std::filesystem::directory_iterator(root / "schemas")) {
    const json::Value schema = json::parse(cli::read_file(entry.path(), 1 << 20), entry.path());
    const std::string format = schema["properties"]["format"]["const"];
    const std::size_t begin = page.find(".Ss " + format + "\n");
    REQUIRE_MESSAGE(begin != std::string::npos, "no section .Ss ", format);
    const std::set<std::string> named = words(page.substr(begin, page.find("\n.Ss ", begin) - begin));
    for (const auto &[field, rules] : schema["properties"].items())
      if (field != "format" && field != "version")
        CHECK_MESSAGE(named.count(field) == 1, format, " lacks ", field);
    ++documents;
  }
  CHECK(documents > 0);
}
