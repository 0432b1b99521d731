// The report as HTML: whatever classes, candidates and records are called, it stays one harmless document.
#include "select/html.h"

#include "json/bytes.h"

#include <doctest/doctest.h>

#include <regex>
#include <set>

using namespace tl;
using namespace tl::select;

namespace {

const std::vector<std::string> kNames = {
    "a<script>alert(1)</script>", "\"quoted\" & 'so'", "</title></svg><img src=//x>", "new\nline\tand\x01",
    "\xff\xfe not UTF-8",         "back\\slash",       "\xe2\x82\xac \xd7\x90"};

json::Value candidate(std::size_t number, const std::string &name, std::size_t classes) {
  json::Value recall = json::Value::array();
  for (std::size_t i = 0; i < classes; ++i) recall.push_back(i == 1 ? json::Value() : json::Value(0.5));
  return {{"rank", number + 1},
          {"id", "000000000000000" + std::to_string(number)},
          {"name", json::escape_bytes(name)},
          {"model", json::escape_bytes(name)},
          {"status", "ok"},
          {"score", 0.9 - 0.01 * static_cast<double>(number)},
          {"epochs", 3},
          {"best_epoch", 2},
          {"validation", {{"loss", 0.3}, {"accuracy", 0.9}, {"balanced_accuracy", 0.8}, {"recall", recall}}},
          {"seconds", 1.5},
          {"cached", number % 2 == 1}};
}

json::Value board() {
  json::Value classes = json::Value::array(), candidates = json::Value::array();
  for (const std::string &name : kNames) classes.push_back(json::escape_bytes(name));
  for (std::size_t i = 0; i < kNames.size(); ++i)
    candidates.push_back(candidate(i, kNames[i], kNames.size()));
  candidates.push_back({{"id", "0000000000000009"},
                        {"name", "failed"},
                        {"model", "net"},
                        {"status", "failed"},
                        {"failure", "a loss <of> NaN"},
                        {"seconds", 0.1},
                        {"cached", false}});
  return {{"experiment", "e<x>.json"},
          {"dataset", "photos&co/"},
          {"metric", "accuracy"},
          {"classes", classes},
          {"inputs", 100},
          {"skipped", {{{"id", json::escape_bytes(kNames[0])}, {"reason", "0 <bytes>"}}}},
          {"candidates", candidates},
          {"seconds", {{"extract", 1.0}, {"train", 2.0}, {"total", 3.0}}}};
}

json::Value plan() {
  json::Value sets = json::Value::array(), groups = json::Value::array();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string id = "000000000000000" + std::to_string(i);
    sets.push_back({{"values", {{{"name", json::escape_bytes(kNames[i])}}}},
                    {"bytes_per_record", 4096},
                    {"pass", 0},
                    {"stored", i == 0},
                    {"candidates", {id}}});
    groups.push_back({{"candidates", {id}}, {"sets", {i}}, {"records", i == 2}, {"computed", i}});
  }
  return {{"records", 100},
          {"shared_flops", 10.0},
          {"separate_flops", 35.0},
          {"sets", sets},
          {"passes", {{{"sets", {0, 1, 2, 3, 4, 5, 6}}}}},
          {"groups", groups}};
}

std::map<std::string, json::Value> epochs(std::size_t count) {
  json::Value history = json::Value::array();
  for (std::size_t i = 0; i < count; ++i)
    history.push_back(
        {{"epoch", i + 1}, {"validation_loss", 1.0 / static_cast<double>(i + 1)}, {"accuracy", 0.5}});
  return {{"0000000000000000", history}, {"0000000000000001", history}};
}

/// Every tag, as it stands; throws nothing and closes what it opens.
std::vector<std::string> open_tags(const std::string &html) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)([^<>]*)>");
  for (std::sregex_iterator at(html.begin(), html.end(), tag), end; at != end; ++at) {
    const std::string name = (*at)[2], rest = (*at)[3];
    if (name == "meta" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*at)[1].length() == 0)
      open.push_back(name);
    else if (!open.empty() && open.back() == name)
      open.pop_back();
    else
      open.push_back("/" + name);
  }
  return open;
}

std::string without(std::string html, const std::string &from, const std::string &to) {
  const std::size_t begin = html.find(from), end = html.find(to);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  return html.erase(begin, end - begin);
}

} // namespace

TEST_CASE("html: markup in any name is text") {
  CHECK(escape_html("<a b=\"c\" d='e'>&amp;") == "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
  CHECK(escape_html("a\nb") == "a\\x0ab");
  CHECK(escape_html("\xff").find('\xff') == std::string::npos);
  CHECK(escape_html("\xe2\x82\xac") == "\xe2\x82\xac");
}

TEST_CASE("html: the report is one well-formed document, whatever things are called") {
  const json::Value b = board(), p = plan();
  for (const std::size_t count : {0, 1, 5})
    for (const bool with_plan : {false, true}) {
      const auto history = epochs(count);
      std::string html = html_report({b, with_plan ? p : json::Value(), history, ""});
      CHECK((html.find("<path class=\"curve") != std::string::npos) == (count > 0));
      CHECK((html.find("<h2>Plan</h2>") != std::string::npos) == with_plan);
      html = without(without(html, "<style>", "</style>"), "<script>", "</script>");
      html.erase(html.find("</script>"), 9);
      html.erase(html.find("</style>"), 8);
      CHECK(open_tags(html).empty());
      for (const char *bad : {"<script", "<img", "alert(1)<", "src=//x>", "href", "url("})
        CHECK(html.find(bad) == std::string::npos);
      CHECK(html.find("&lt;script&gt;alert(1)&lt;/script&gt;") != std::string::npos);
      CHECK(html.find("a loss &lt;of&gt; NaN") != std::string::npos);
    }
}

TEST_CASE("html: nothing is asked of a network, and every table and picture says what it is") {
  const json::Value b = board(), p = plan();
  const auto history = epochs(4);
  const std::string html = html_report({b, p, history, "<svg role=\"img\" aria-label=\"curve\"></svg>"});
  CHECK(html.find("http:") == std::string::npos);
  CHECK(html.find("https:") == std::string::npos);
  const auto count = [&](const std::string &text) {
    std::size_t n = 0;
    for (std::size_t at = html.find(text); at != std::string::npos; at = html.find(text, at + 1)) ++n;
    return n;
  };
  CHECK(count("<table") == 3);
  CHECK(count("<caption>") == count("<table"));
  CHECK(count("<svg") == 4);
  CHECK(count("role=\"img\"") == count("<svg"));
  CHECK(count("aria-label=") == count("<svg"));
  CHECK(html.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(html.find("Labelling curve") != std::string::npos);
}

TEST_CASE("html: a plan of very many parts stays a drawing that can be read") {
  json::Value p = plan();
  const json::Value set = p["sets"][0], group = p["groups"][0];
  for (int i = 0; i < 2000; ++i) {
    p["sets"].push_back(set);
    json::Value other = group;
    other["sets"] = {p["sets"].size() - 1};
    p["groups"].push_back(other);
  }
  const std::string svg = plan_svg(board(), p);
  CHECK(svg.size() < 100000);
  CHECK(svg.find("and more") != std::string::npos);
}
