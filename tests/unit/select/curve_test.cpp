// History, labelling curves and the worth of features.
#include "select/curve.h"
#include "select/garbage.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using namespace tl::select;

namespace {

store::TrialRow trial(const std::string &id, std::int64_t rank, std::optional<double> score) {
  store::TrialRow row;
  row.candidate = id;
  row.name = "<" + id + ">";
  row.settings = "{}";
  if (score) row.rank = rank;
  row.score = score;
  if (!score) row.failure = "out of memory";
  return row;
}

store::Cycle cycle(std::int64_t number, std::int64_t records, const std::string &metric = "accuracy") {
  store::Cycle made;
  made.number = number;
  made.records = records;
  made.metric = metric;
  made.started = made.last_run = "2026-12-02 15:07:45";
  made.experiment = "e.json";
  made.dataset = "photos";
  return made;
}

const std::string a(16, 'a'), b(16, 'b');

History history() {
  return {{cycle(1, 50, "loss"), cycle(2, 100), cycle(3, 150)},
          {{trial(a, 1, -0.3)},
           {trial(a, 1, 0.7), trial(b, 2, 0.6)},
           {trial(b, 1, 0.9), trial(a, 2, std::nullopt)}}};
}

} // namespace

TEST_CASE("labelling curves: the best of each cycle, then each candidate; another metric's scores stay out") {
  const auto curves = labelling_curves(history());
  REQUIRE(curves.size() == 3);
  REQUIRE(curves[0].points.size() == 2);
  CHECK(curves[0].points[0].candidate == a);
  CHECK(curves[0].points[1].candidate == b);
  CHECK(curves[0].points[1].records == 150);
  CHECK(curves[1].id == b); // the best in the last cycle
  CHECK(curves[1].points.size() == 2);
  CHECK(curves[2].points.size() == 1); // it failed in the last one
}

TEST_CASE("the drawing has a mark for each result, and no markup of a name") {
  const std::string svg = labelling_svg(history());
  const auto count = [&](const std::string &what) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
    return found;
  };
  CHECK(count("<circle") == 5);
  CHECK(count("<bbbb") == 0);
  CHECK(count("&lt;bbbb") > 0);
  CHECK(labelling_svg(history(), 1).size() < svg.size());
  CHECK(labelling_svg({}).find("no cycle with a result yet") != std::string::npos);
  for (const char *nonsense : {"nan", "inf"}) {
    History flat{{cycle(1, 100)}, {{trial(a, 1, 0.5)}}};
    CHECK(labelling_svg(flat).find(nonsense) == std::string::npos);
    CHECK(svg.find(nonsense) == std::string::npos);
  }
}

TEST_CASE("the document agrees with its schema, the table has a line for each cycle") {
  const json::Value document = to_json(history());
  json::validate(document, "history", "test");
  CHECK(document.at("cycles").size() == 3);
  const std::string text = table(history());
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
}

TEST_CASE("features are worth the more, the longer they take to make, the smaller and the fresher they are") {
  const std::int64_t now = 1796224065; // 2026-12-02 15:07:45 UTC
  store::FeatureRow row{"k", "layer4", 100, 1000, 0.5, "2026-12-02 15:07:45", 1};
  const double base = worth(row, now);
  CHECK(base == doctest::Approx(0.05));
  CHECK(worth(row, now + 24 * 3600) == doctest::Approx(base / 2));
  CHECK(worth(row, now - 3600) == doctest::Approx(base)); // a clock that was set back
  row.bytes = 2000;
  CHECK(worth(row, now) == doctest::Approx(base / 2));
  row.seconds_per_record = 1;
  CHECK(worth(row, now) == doctest::Approx(base));
  row.seconds_per_record = std::nullopt;
  CHECK(worth(row, now) == 0);
}
