#include "plan/observed.h"

#include "cli/error.h"
#include "support/files.h"
#include "support/profiles.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::test;

namespace {

/// What a run by `plan` sees if each tier is that many times slower than profiled.
plan::Observed observe(const plan::Plan &plan, const plan::Drift &drift) {
  const plan::Prediction &p = plan.predicted;
  const double storage = p.storage * drift.storage, link = p.link * drift.link,
               compute = p.compute * drift.compute;
  plan::Observed observed;
  observed.origin = "metrics.jsonl:2";
  observed.cut = plan.cut_name();
  observed.codec = name_of(plan.codec);
  observed.records = 100;
  observed.bytes = 100 * p.bytes;
  observed.seconds = 100 * std::max({storage, link, compute});
  observed.compute_seconds = compute;
  observed.limited_by = link >= storage && link >= compute ? "link"
                        : storage >= compute               ? "storage"
                                                           : "compute";
  return observed;
}

/// A metrics line with an arrival.
json::Value line_of(const plan::Observed &observed) {
  return {{"format", "tl-metrics"},
          {"version", 1},
          {"event", "epoch"},
          {"epoch", 1},
          {"steps", 4},
          {"lr", 0.1},
          {"train", {{"records", 100}, {"loss", 0.5}}},
          {"validation", nullptr},
          {"best", true},
          {"seconds", observed.seconds},
          {"records_per_second", 10},
          {"waiting", 0.5},
          {"stages", {{"wait", 1}, {"frozen", 1}, {"train", 1}}},
          {"arrival",
           {{"cut", observed.cut},
            {"codec", observed.codec},
            {"records", static_cast<std::int64_t>(observed.records)},
            {"bytes", static_cast<std::int64_t>(observed.bytes)},
            {"seconds", observed.seconds},
            {"compute_seconds", observed.compute_seconds},
            {"later_records", 10},
            {"later_seconds", 1.0},
            {"busy", {{"storage", 0.5}, {"link", 0.9}, {"compute", 0.1}}},
            {"limited_by", observed.limited_by},
            {"sender", {{"seconds", 1}, {"stages", json::Value::array()}}}}}};
}

} // namespace

TEST_CASE("the limiting tier's drift is found, whichever it is and in both directions") {
  for (const double bandwidth : {1e4, 2e5, 1e6, 1e9})
    for (const double factor : {0.2, 0.5, 1.0, 2.0, 8.0})
      for (double plan::Drift::*tier : {&plan::Drift::storage, &plan::Drift::link, &plan::Drift::compute}) {
        plan::Request request = make_request(residual(), bandwidth);
        const plan::Plan plan = plan::make_plan(request);
        plan::Drift truth;
        truth.*tier = factor;
        request.observed = observe(plan, truth);
        const plan::Plan again = plan::make_plan(request);
        REQUIRE(again.revision);
        const plan::Drift found{again.revision->storage, again.revision->link, again.revision->compute};
        const bool limits = request.observed->limited_by == (tier == &plan::Drift::storage ? "storage"
                                                             : tier == &plan::Drift::link  ? "link"
                                                                                           : "compute");
        if (limits || tier == &plan::Drift::compute) CHECK(found.*tier == doctest::Approx(factor));
        // Nothing is made slower that was not seen to be.
        for (double plan::Drift::*other : {&plan::Drift::storage, &plan::Drift::link, &plan::Drift::compute})
          if (other != tier) CHECK(found.*other <= doctest::Approx(1));
        CHECK(again.revision->drifted == (found.largest() > 1.5));
        CHECK(again.revision->cut == plan.cut_name());
        if (!again.revision->drifted) CHECK(again.cut_name() == plan.cut_name());
      }
}

TEST_CASE("planning for what was observed is planning with profiles that say so") {
  plan::Request request = make_request(chain(), 1e7);
  const plan::Plan before = plan::make_plan(request);
  for (const double slower : {2.0, 10.0, 100.0}) {
    plan::Request truth = make_request(chain(), 1e7 / slower);
    const plan::Plan expected = plan::make_plan(truth);
    plan::Drift drift;
    drift.link = slower;
    request.observed = observe(before, drift);
    if (request.observed->limited_by != "link") continue;
    const plan::Plan plan = plan::make_plan(request);
    CHECK(plan.cut_name() == expected.cut_name());
    CHECK(plan.predicted.total == doctest::Approx(expected.predicted.total));
  }
}

TEST_CASE("a stated drift is no drift") {
  plan::Request request = make_request(residual(), 1e4);
  const plan::Plan before = plan::make_plan(request);
  plan::Drift drift;
  drift.link = 3;
  request.observed = observe(before, drift);
  request.allowed_drift = 3.1;
  const plan::Plan plan = plan::make_plan(request);
  CHECK_FALSE(plan.revision->drifted);
  CHECK(plan.predicted.total == doctest::Approx(before.predicted.total));
  CHECK(plan::describe(*plan.revision, plan).find("no drift of more than 3.10 times") != std::string::npos);
}

TEST_CASE("an observation of another network or scheme is refused") {
  plan::Request request = make_request(residual(), 1e4);
  plan::Observed other = observe(plan::make_plan(request), {});
  other.cut = "layer9";
  request.observed = other;
  CHECK_THROWS_WITH_AS(plan::make_plan(request),
                       doctest::Contains("metrics.jsonl:2: tells of the cut layer9"), Error);
}

TEST_CASE("a plan keeps what it was revised by") {
  plan::Request request = make_request(residual(), 1e5);
  const plan::Plan before = plan::make_plan(request);
  plan::Drift drift;
  drift.link = 7;
  request.observed = observe(before, drift);
  const plan::Plan plan = plan::make_plan(request);
  const json::Value document = to_json(plan);
  CHECK(document.contains("revision"));
  CHECK(to_json(plan::plan_from_json(document, "plan")) == document);
  CHECK_FALSE(to_json(before).contains("revision"));
}

TEST_CASE("metrics: the last arrival counts, a torn line does not, damage is named") {
  const TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  plan::Observed first = observe(plan::make_plan(make_request(residual(), 1e4)), {}), second = first;
  second.seconds *= 2;
  const std::string one = json::compact(line_of(first)), two = json::compact(line_of(second));
  json::Value silent = line_of(first);
  silent.erase("arrival");
  const auto load = [&](const std::string &text) {
    return plan::load_observed(folder.write("metrics.jsonl", text)).value();
  };
  CHECK(load(one + "\n" + two + "\n" + json::compact(silent) + "\n").seconds == second.seconds);
  CHECK(load(one + "\n" + two.substr(0, two.size() / 2)).seconds == first.seconds);
  CHECK(load(one).origin == path + ":1");
  for (const std::string &nothing : {json::compact(silent) + "\n", std::string()})
    CHECK_FALSE(plan::load_observed(folder.write("metrics.jsonl", nothing)));
  CHECK_THROWS_WITH_AS(load(one + "\n{}\n"), doctest::Contains(":2:"), FormatError);
  CHECK_THROWS_WITH_AS(load(one + "\n" + two.substr(0, 40) + "\n" + one + "\n"), doctest::Contains(":2:"),
                       FormatError);
  for (const char *key : {"records", "bytes", "seconds", "compute_seconds"}) {
    json::Value zero = line_of(first);
    zero["arrival"][key] = 0;
    CHECK_THROWS_AS(load(json::compact(zero) + "\n"), FormatError);
    json::Value text = line_of(first);
    text["arrival"][key] = "many";
    CHECK_THROWS_AS(load(json::compact(text) + "\n"), FormatError);
  }
}
