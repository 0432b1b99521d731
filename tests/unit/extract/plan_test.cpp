// A plan is carried out only on what it was made for.
#include "cli/error.h"
#include "support/extraction.h"

#include <doctest/doctest.h>

using namespace tl;

namespace {

struct Fixture {
  test::TempFolder folder;
  test::Photos photos;
  std::string path = test::save(test::conv_net(), folder.path("model.pt"));
  graph::Scheme scheme;

  Fixture() {
    photos.add("cat/1.ppm", 1);
    photos.add("dog/2.ppm", 2);
    scheme.head = graph::Head{};
  }

  /// As tl-split makes it.
  plan::Plan plan_at(const std::string &cut, plan::Codec codec = plan::Codec::fp32) const {
    const data::Preprocess preprocess = test::small_pictures();
    const model::Model pretrained = test::load_small(path, preprocess);
    const model::Model model = model::apply_scheme(pretrained, scheme, 2);
    plan::Plan plan;
    plan.model_path = plan.storage_model_path = path;
    plan.model_digest = plan::parameters_digest(pretrained.graph);
    plan.input_shape = {3, 8, 8};
    plan.classes = 2;
    plan.scheme = scheme;
    plan.preprocess = data::to_json(preprocess);
    plan.codec = codec;
    for (const graph::ValueId id : graph::find_cut(model.graph, graph::frozen(model.graph), cut).values) {
      const graph::Value &value = model.graph.values[static_cast<std::size_t>(id)];
      plan.values.push_back({value.name, value.hash, value.dtype, value.shape});
    }
    return plan;
  }

  extract::Prefix carry_out(const plan::Plan &plan, const std::string &other_model = "") const {
    return extract::Prefix::of_plan(plan, "plan.json", other_model, data::Dataset::open(photos.root()));
  }
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "a plan gives the features that it names, and its digest") {
  for (const char *cut : {"conv1", "block", "input"}) {
    CAPTURE(cut);
    const plan::Plan plan = plan_at(cut);
    const extract::Prefix prefix = carry_out(plan);
    CHECK(prefix.meta().plan == plan.digest());
    REQUIRE(prefix.meta().values.size() == 1);
    CHECK(prefix.meta().values[0].name == plan.values[0].name);
    CHECK(prefix.meta().values[0].hash == plan.values[0].hash);
    CHECK(prefix.meta().preprocess_digest == test::small_pictures().digest());
  }
}

TEST_CASE_FIXTURE(Fixture, "the scheme's own pooling can be part of the prefix") {
  scheme.features = "block";
  const plan::Plan plan = plan_at("head.pool");
  const extract::Prefix prefix = carry_out(plan);
  CHECK(prefix.meta().values[0].shape == Shape{8});
  CHECK(prefix.meta().values[0].hash == plan.values[0].hash);
}

TEST_CASE_FIXTURE(Fixture, "with and without a plan, the same features have the same key") {
  CHECK(carry_out(plan_at("block")).meta().key() ==
        test::prefix_at(test::load_small(path), "block").meta().key());
  CHECK(carry_out(plan_at("input", plan::Codec::u8)).meta().key() ==
        test::prefix_at(test::load_small(path), "input").meta().key());
}

TEST_CASE_FIXTURE(Fixture, "pixels and files need no model file") {
  plan::Plan plan = plan_at("input", plan::Codec::u8);
  plan.storage_model_path = folder.path("nowhere.pt");
  const extract::Prefix pixels = carry_out(plan);
  CHECK(pixels.form() == data::Form::pixels);
  CHECK(pixels.meta().values[0].dtype == DType::u8);

  plan.kind = plan::CutKind::files;
  plan.values.clear();
  plan.codec = plan::Codec::fp32;
  const extract::Prefix files = carry_out(plan);
  CHECK(files.form() == data::Form::encoded);
  CHECK(files.meta().plan == plan.digest());
}

TEST_CASE_FIXTURE(Fixture, "another file of the same weights will do") {
  plan::Plan plan = plan_at("block");
  plan.storage_model_path = folder.path("nowhere.pt");
  CHECK_THROWS_AS(carry_out(plan), Error);
  const std::string copy = test::save(test::conv_net(), folder.path("copy.pt"));
  CHECK(carry_out(plan, copy).meta().key() == carry_out(plan_at("block")).meta().key());
}

TEST_CASE_FIXTURE(Fixture, "a stale plan is refused in one line that says why") {
  const auto refused = [&](const plan::Plan &plan, const char *why) {
    CHECK_THROWS_WITH_AS(carry_out(plan), doctest::Contains(why), Error);
    try {
      carry_out(plan);
    } catch (const Error &error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
  };
  const plan::Plan good = plan_at("block");

  plan::Plan plan = good; // another preprocessing than the hashes were made with
  data::Preprocess other = test::small_pictures();
  other.mean = {0.1, 0.1, 0.1};
  plan.preprocess = data::to_json(other);
  refused(plan, "stale plan");

  plan = good;
  plan.values[0].shape = {8, 4, 4};
  refused(plan, "8x8x8");
  plan = good;
  plan.values[0].hash = hash_text("other");
  refused(plan, "'block'");
  plan = good;
  plan.values[0].name = "blok";
  refused(plan, "blok");
  plan = good;
  plan.classes = 3;
  refused(plan, "2 classes");
  plan = good;
  plan.codec = plan::Codec::u8;
  refused(plan, "u8");
  plan = plan_at("input");
  plan.preprocess = data::to_json(other);
  refused(plan, "'input'");

  // One weight changes, under the same path.
  test::ConvNet options;
  options.seed = 2;
  test::save(test::conv_net(options), path);
  refused(good, "other weights");
}

TEST_CASE_FIXTURE(Fixture, "a model that cannot be split is refused before any record is read") {
  const plan::Plan plan = plan_at("block");
  photos.add_damaged("cat/1.ppm");
  const std::string mixing = test::save(
      test::from_source("def forward(self, x):\n  return torch.flatten(x - torch.mean(x, [0], True), 1)\n"),
      folder.path("mixing.pt"));
  CHECK_THROWS_WITH_AS(carry_out(plan, mixing), doctest::Contains("mixing.pt"), Error);
}

TEST_CASE_FIXTURE(Fixture, "the key changes with what changes a feature, and with nothing else") {
  const auto key = [&](const std::string &model, const std::string &cut, const data::Preprocess &how) {
    return test::prefix_at(test::load_small(model, how), cut, how).meta().key();
  };
  const data::Preprocess how = test::small_pictures();
  const Digest same = key(path, "block", how);
  CHECK(key(test::save(test::conv_net(), folder.path("copy.pt")), "block", how) == same);
  data::Preprocess unseen = how;
  unseen.max_pixels = 12345; // decides which records are read, not what they become
  CHECK(key(path, "block", unseen) == same);

  CHECK(key(path, "conv1", how) != same);
  for (const char *other : {"resize=8x8", "resize=8x8,mean=0.5/0.4/0.6,std=0.2/0.3/0.26",
                            "resize=9,crop=8,mean=0.5/0.4/0.6,std=0.2/0.3/0.25",
                            "resize=8x8,mean=0.5/0.4/0.6,std=0.2/0.3/0.25,interpolation=bicubic",
                            "resize=8x8,mean=0.5/0.4/0.6,std=0.2/0.3/0.25,exif=apply"}) {
    CAPTURE(other);
    CHECK(key(path, "block", data::parse_preprocess(other)) != same);
  }
  torch::jit::Module net = test::conv_net();
  net.attr("conv1").toModule().attr("weight").toTensor()[0][0][0][0] += 1e-3;
  CHECK(key(test::save(net, folder.path("one.pt")), "block", how) != same);
  // A weight behind the cut is no part of it.
  torch::jit::Module behind = test::conv_net();
  behind.attr("fc").toModule().attr("bias").toTensor()[0] += 1;
  CHECK(key(test::save(behind, folder.path("behind.pt")), "block", how) == same);
}
