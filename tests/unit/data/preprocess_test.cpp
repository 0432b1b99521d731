#include "cli/error.h"
#include "data/preprocess.h"
#include "support/files.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>

using namespace tl;
using namespace tl::data;

namespace {

Preprocess imagenet() { return parse_preprocess("imagenet"); }

/// Every change that can alter a value of a picture's input.
std::vector<std::function<void(Preprocess &)>> changes() {
  return {
      [](Preprocess &p) { p.resize = {255}; },
      [](Preprocess &p) {
        p.resize = {256, 256};
      },
      [](Preprocess &p) { p.resize = {}; },
      [](Preprocess &p) { p.interpolation = Interpolation::bicubic; },
      [](Preprocess &p) { p.interpolation = Interpolation::nearest; },
      [](Preprocess &p) { p.antialias = false; },
      [](Preprocess &p) {
        p.crop = {224, 225};
      },
      [](Preprocess &p) { p.crop = {}; },
      [](Preprocess &p) { p.channels = 1, p.mean = {0.5}, p.std = {0.5}; },
      [](Preprocess &p) { p.scale = false; },
      [](Preprocess &p) { p.mean[1] += 1e-9; },
      [](Preprocess &p) { p.std[2] += 1e-9; },
      [](Preprocess &p) { p.mean.clear(), p.std.clear(); },
      [](Preprocess &p) { p.exif = ExifRule::apply; },
  };
}

} // namespace

TEST_CASE("JSON keeps every field, for every change of one") {
  std::vector<Preprocess> all = {imagenet(), parse_preprocess("raw"), parse_preprocess("tensor"),
                                 parse_preprocess("tokens"), parse_preprocess("imagenet-232")};
  for (const auto &change : changes()) {
    all.push_back(imagenet());
    change(all.back());
  }
  for (const Preprocess &p : all) {
    const Preprocess back = preprocess_from_json(json::parse(json::pretty(to_json(p)), "test"), "test");
    CHECK(back == p);
    CHECK(back.digest() == p.digest());
  }
}

TEST_CASE("the digest changes with every setting that changes a value, and with no other") {
  std::set<Digest> seen = {imagenet().digest()};
  for (const auto &change : changes()) {
    Preprocess p = imagenet();
    change(p);
    CHECK(seen.insert(p.digest()).second);
  }
  Preprocess p = imagenet();
  p.max_pixels = 12345678;
  CHECK(p.digest() == imagenet().digest());
  Preprocess raw = parse_preprocess("raw"), cubic = raw;
  cubic.interpolation = Interpolation::bicubic; // nothing is resized
  CHECK(raw.digest() == cubic.digest());
  CHECK(parse_preprocess("tensor").digest() != parse_preprocess("tokens").digest());
}

TEST_CASE("settings on the command line") {
  const Preprocess p = parse_preprocess("imagenet,resize=225,crop=225");
  CHECK(p.resize == Shape{225});
  CHECK(p.crop == Shape{225, 225});
  CHECK(p.mean == imagenet().mean);
  CHECK(p.input_shape() == Shape{3, 225, 225});

  const Preprocess grey = parse_preprocess("resize=32x48,channels=1,mean=0.5,std=0.25,interpolation=bicubic,"
                                           "antialias=no,exif=apply,max_pixels=1000000");
  CHECK(grey.input_shape() == Shape{1, 32, 48});
  CHECK(grey.interpolation == Interpolation::bicubic);
  CHECK_FALSE(grey.antialias);
  CHECK(grey.exif == ExifRule::apply);
  CHECK(grey.std == std::vector<double>{0.25});
  CHECK(grey.max_pixels == 1000000);

  CHECK(parse_preprocess("imagenet,crop=none").input_shape().empty());
  CHECK(parse_preprocess("imagenet,mean=none,std=none").mean.empty());
  for (const std::string &name : preset_names()) CHECK_NOTHROW(parse_preprocess(name));
}

TEST_CASE("a file of settings") {
  const test::TempFolder folder;
  const std::string path = folder.write("p.json", R"({"resize": [64], "crop": [60, 60]})");
  CHECK(parse_preprocess(path).input_shape() == Shape{3, 60, 60});
  const std::string bad = folder.write("bad.json", R"({"resise": [64]})");
  CHECK_THROWS_WITH_AS(parse_preprocess(bad), doctest::Contains("did you mean 'resize'?"), FormatError);
}

TEST_CASE("what makes no sense is refused by name") {
  for (const char *text : {"",
                           "imagenets",
                           "imagenet,raw",
                           "resize",
                           "resize=",
                           "resize=0",
                           "resize=-1",
                           "resize=1x2x3",
                           "resize=99999999",
                           "crop=1x2x3",
                           "crop=65536x65536",
                           "channels=2",
                           "mean=0.5,std=0.5",
                           "mean=0.5/0.5/0.5",
                           "mean=a/b/c,std=1/1/1",
                           "std=0/1/1,mean=0/0/0",
                           "std=1e999/1/1,mean=0/0/0",
                           "scale=maybe",
                           "exif=rotate",
                           "interpolation=lanczos",
                           "max_pixels=0",
                           "kind=audio",
                           "kind=tensor,resize=3",
                           "kind=tokens,mean=0,std=1",
                           "nonsense=1",
                           "=",
                           ",",
                           "resize=256,,crop=224"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_preprocess(text), UsageError);
  }
  for (const char *text : {"[]", "3", R"({"resize": 3})", R"({"resize": [1.5]})", R"({"resize": [true]})",
                           R"({"scale": 1})", R"({"kind": 4})", R"({"mean": ["a"]})", R"({"channels": 3.0})",
                           R"({"max_pixels": 1e30})", R"({"mean": [0, 0, 0], "std": [1, 1, -1]})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(preprocess_from_json(json::parse(text, "t"), "t"), FormatError);
  }
}

TEST_CASE("the summary names what is done") {
  const std::string text = imagenet().summary();
  for (const char *part : {"256", "bilinear", "224x224", "RGB", "0.485/0.456/0.406", "0.229/0.224/0.225"})
    CHECK(text.find(part) != std::string::npos);
}
