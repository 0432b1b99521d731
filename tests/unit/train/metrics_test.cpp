// Figures are sums over records: no batch changes them.
#include "train/metrics.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cmath>

using namespace tl;
using train::Evaluation;

namespace {
/// Ten records of class 0, 1 and (never) 2; the last two are taken for the wrong class.
Evaluation ten(std::int64_t batch) {
  const at::Tensor labels = at::tensor(std::vector<std::int64_t>{0, 0, 1, 0, 0, 1, 0, 0, 1, 0});
  at::Tensor logits = torch::zeros({10, 3});
  for (int i = 0; i < 10; ++i) {
    const auto label = labels[i].item<std::int64_t>();
    logits[i][i < 8 ? label : 1 - label] = 2;
  }
  Evaluation evaluation(3);
  for (std::int64_t i = 0; i < 10; i += batch) {
    const std::int64_t rows = std::min<std::int64_t>(batch, 10 - i);
    evaluation.add(logits.narrow(0, i, rows), labels.narrow(0, i, rows));
  }
  return evaluation;
}
} // namespace

TEST_CASE("uneven batches count by their records") {
  const double e2 = std::exp(2.0);
  const double right = std::log(e2 + 2) - 2, wrong = std::log(e2 + 2);
  for (std::int64_t batch = 1; batch <= 10; ++batch) {
    const Evaluation evaluation = ten(batch);
    CHECK(evaluation.records() == 10);
    CHECK(evaluation.accuracy() == doctest::Approx(0.8));
    CHECK(evaluation.loss() == doctest::Approx((8 * right + 2 * wrong) / 10));
    CHECK(*evaluation.recall(0) == doctest::Approx(6.0 / 7));
    CHECK(*evaluation.recall(1) == doctest::Approx(2.0 / 3));
    CHECK(!evaluation.recall(2));
    CHECK(evaluation.count(0) == 7);
    CHECK(evaluation.balanced_accuracy() == doctest::Approx((6.0 / 7 + 2.0 / 3) / 2));
  }
}

TEST_CASE("a score grows with quality, whatever is monitored") {
  const Evaluation good = ten(4);
  Evaluation bad(3);
  bad.add(at::tensor(std::vector<float>{0, 5, 0, 5, 0, 0}).reshape({2, 3}),
          at::tensor(std::vector<std::int64_t>{0, 1}));
  for (const train::Monitor monitor :
       {train::Monitor::loss, train::Monitor::accuracy, train::Monitor::balanced_accuracy})
    CHECK(good.score(monitor) > bad.score(monitor));
}

TEST_CASE("a missing class is null in the document") {
  const json::Value document = ten(3).to_json();
  CHECK(document.at("recall").size() == 3);
  CHECK(document.at("recall").at(2).is_null());
  CHECK(document.at("records") == 10);
}
