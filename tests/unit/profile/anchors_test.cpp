// Prefixes and suffixes that are timed whole, and how their times are divided.
#include "profile/anchors.h"
#include "profile/segments.h"
#include "support/files.h"
#include "support/models.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

using namespace tl;
using doctest::Approx;

TEST_CASE("parts are scaled to what the anchors take, each to what it takes beyond the one before") {
  CHECK(profile::fit_parts({2, 2, 4}, {3}, {4}) == std::vector<double>{1, 1, 2});
  const std::vector<double> parts = profile::fit_parts({1, 1, 2, 2}, {2, 4}, {2.5, 5.5});
  CHECK(parts[0] == Approx(1.25));
  CHECK(parts[1] == Approx(1.25));
  CHECK(parts[2] == Approx(1.5));
  CHECK(parts[3] == Approx(1.5));
}

TEST_CASE("a disturbed anchor makes no part free, and the whole still adds up") {
  for (const double disturbed : {0.0, 1.9, 7.0}) {
    CAPTURE(disturbed);
    const std::vector<double> parts = profile::fit_parts({1, 1}, {1, 2}, {disturbed, 2});
    CHECK(parts[0] + parts[1] == Approx(2));
    for (const double part : parts) CHECK(part > 0.5);
  }
}

TEST_CASE("a prefix and the suffix behind it are the network") {
  const test::TempFolder folder;
  const model::Model net =
      model::load_model(test::save(test::conv_net(), folder.path("net.pt")), test::kPicture, Digest());
  const std::vector<graph::Cut> borders = profile::choose_borders(net.graph);
  const std::vector<profile::Anchor> anchors = profile::make_anchors(net, borders, graph::Execution::blocked);
  REQUIRE(anchors.size() >= 2);
  const std::vector<at::Tensor> records = {test::Draws(1).uniform({2, 3, 8, 8}, -1, 1)};
  const at::Tensor whole = anchors.back().prefix->run(records).at(0);
  CHECK(anchors.back().parts + 1 == borders.size());
  CHECK(anchors.back().suffix == nullptr);
  std::size_t before = 0;
  for (const profile::Anchor &anchor : anchors) {
    CHECK(anchor.parts > before);
    before = anchor.parts;
    if (anchor.suffix)
      CHECK(at::allclose(anchor.suffix->run(anchor.prefix->run(records)).at(0), whole, 1e-4, 1e-5));
  }
}
