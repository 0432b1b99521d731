// Options, schedules and their text.
#include "train/options/options.h"

#include "cli/error.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tl;
using train::Schedule;
using train::TrainOptions;

namespace {
TrainOptions parse(const char *text) { return train::options_from_json(json::parse(text, "test"), "test"); }
std::string refusal(const char *text) {
  try {
    parse(text);
  } catch (const FormatError &error) {
    return error.what();
  }
  return "";
}
} // namespace

TEST_CASE("defaults follow the optimiser, and what is given wins") {
  CHECK(parse("{}").lr == 1e-3);
  CHECK(parse("{}").momentum == 0);
  CHECK(parse(R"({"optimizer":"sgd"})").lr == 0.01);
  CHECK(parse(R"({"optimizer":"sgd"})").momentum == 0.9);
  CHECK(parse(R"({"momentum":0.5,"optimizer":"sgd"})").momentum == 0.5);
  CHECK(parse(R"({"lr":3,"optimizer":"sgd"})").lr == 3);
  CHECK(parse(R"({"optimizer":"adamw"})").weight_decay == 0.01);
  CHECK(parse(R"({"optimizer":"adamw","weight_decay":0})").weight_decay == 0);
}

TEST_CASE("options survive JSON") {
  TrainOptions options = parse(R"({"optimizer":"sgd","epochs":7,"batch":3,"lr":0.125,"momentum":0.25,
    "weight_decay":0.5,"schedule":"step:3:0.3","warmup":11,"clip_norm":2,"label_smoothing":0.1,
    "class_weights":"balanced","validation":0.3,"monitor":"balanced-accuracy","patience":4,"seed":9007199254740991})");
  CHECK(options.schedule.factor == 0.3);
  CHECK(options.seed == 9007199254740991ULL);
  const json::Value document = train::to_json(options);
  CHECK(document.size() == 15);
  CHECK(train::to_json(train::options_from_json(document, "again")) == document);
  CHECK(train::changes(options, options).empty());
}

TEST_CASE("wrong options are refused by name") {
  CHECK(refusal(R"({"epoch":3})").find("epochs") != std::string::npos);
  for (const char *text : {R"({"epochs":0})",
                           R"({"epochs":1.5})",
                           R"({"epochs":"3"})",
                           R"({"batch":0})",
                           R"({"batch":-1})",
                           R"({"lr":-1})",
                           R"({"lr":"fast"})",
                           R"({"optimizer":"sdg"})",
                           R"({"optimizer":3})",
                           R"({"momentum":1.5,"optimizer":"sgd"})",
                           R"({"momentum":0.9})",
                           R"({"validation":1})",
                           R"({"validation":-0.1})",
                           R"({"patience":-1})",
                           R"({"patience":2,"validation":0})",
                           R"({"seed":-1})",
                           R"({"seed":9007199254740992})",
                           R"({"schedule":"linear"})",
                           R"({"schedule":"step"})",
                           R"({"schedule":"step:0"})",
                           R"({"schedule":"step:2:"})",
                           R"({"schedule":"step:2:x"})",
                           R"({"schedule":"step:2:0.1:3"})",
                           R"({"schedule":"step:1.5"})",
                           R"({"class_weights":"some"})",
                           R"({"label_smoothing":2})",
                           R"({"clip_norm":-1})",
                           R"({"warmup":-1})",
                           R"({"epochs":18446744073709551615})",
                           R"([])"}) {
    CAPTURE(text);
    CHECK(refusal(text).rfind("test: ", 0) == 0);
  }
}

TEST_CASE("changes name what alters results, and nothing else") {
  const TrainOptions before = parse("{}");
  TrainOptions now = before;
  now.epochs = 99;
  now.patience = 5;
  CHECK(train::changes(before, now).empty());
  now.lr = 0.5;
  now.seed = 1;
  CHECK(train::changes(before, now) == std::vector<std::string>{"lr 0.001 -> 0.5", "seed 0 -> 1"});
  TrainOptions cosine = before, longer = before;
  cosine.schedule = longer.schedule = Schedule::parse("cosine");
  longer.epochs = 11; // stretches the curve
  CHECK(train::changes(cosine, longer) == std::vector<std::string>{"epochs 10 -> 11"});
}

TEST_CASE("schedules are the formulas they name") {
  const Schedule cosine = Schedule::parse("cosine");
  for (int epoch = 0; epoch < 8; ++epoch)
    CHECK(cosine.factor_at(epoch, 8) == doctest::Approx(0.5 * (1 + std::cos(M_PI * epoch / 8))));
  CHECK(cosine.factor_at(0, 1) == 1);
  const Schedule step = Schedule::parse("step:3:0.5");
  for (int epoch = 0; epoch < 10; ++epoch)
    CHECK(step.factor_at(epoch, 10) == doctest::Approx(std::pow(0.5, epoch / 3)));
  CHECK(Schedule::parse("step:4").factor == 0.1);
  CHECK(Schedule::parse("constant").factor_at(7, 10) == 1);
  for (const char *text : {"constant", "cosine", "step:10:0.1", "step:1:0.3333333333333333"})
    CHECK(Schedule::parse(text).text() == text);
}

TEST_CASE("warm-up rises linearly and ends at the rate") {
  CHECK(train::warmup_factor(0, 0) == 1);
  CHECK(train::warmup_factor(0, 4) == 0.25);
  CHECK(train::warmup_factor(2, 4) == 0.75);
  CHECK(train::warmup_factor(3, 4) == 1);
  CHECK(train::warmup_factor(400, 4) == 1);
}
