// When an experiment will end: from the plan, and from how long it took so far.
#include "select/progress.h"

#include <doctest/doctest.h>

using namespace tl::select;

TEST_CASE("progress: the prediction counts at first, then what was measured") {
  Predicted predicted;
  predicted.plan = 100;
  predicted.making = 40;
  Standing standing{0, 1000, 0, 6, 0};
  CHECK(seconds_left(predicted, standing) == doctest::Approx(100));
  standing.records = 500;
  standing.seconds = 20; // as predicted
  CHECK(seconds_left(predicted, standing) == doctest::Approx(80));
  standing.seconds = 40; // half as fast
  CHECK(seconds_left(predicted, standing) == doctest::Approx(160));
  CHECK(describe(predicted, standing).find("extracting 500/1000, then 6 candidates; about ") == 0);
  standing.records = 1000;
  standing.candidates = 3;
  standing.seconds = 70;
  CHECK(seconds_left(predicted, standing) == doctest::Approx(30));
  CHECK(describe(predicted, standing).find("training: 3/6 candidates done") == 0);
  standing.candidates = 6;
  CHECK(seconds_left(predicted, standing) == 0);
}

TEST_CASE("progress: nothing to extract, nothing predicted, more done than there was") {
  Predicted predicted;
  CHECK(seconds_left(predicted, {0, 0, 0, 0, 5}) == 0);
  predicted.plan = 10;
  CHECK(seconds_left(predicted, {0, 0, 0, 4, 5}) == doctest::Approx(10));
  CHECK(seconds_left(predicted, {9, 3, 9, 4, 5}) == 0);
}
