#include "cli/error.h"
#include "data/source.h"
#include "support/datasets.h"
#include "support/files.h"
#include "support/tar.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using namespace tl::data;
using namespace tl::test;

namespace {

Dataset open_samples(const TempFolder &folder, const std::string &bytes, const std::string &missing = "error",
                     const std::string &format = "webdataset") {
  SourceOptions options;
  options.format = format;
  options.missing = missing;
  return Dataset::open(folder.write("set.tar", bytes), options);
}

void refused(const Members &members, const char *reason, const std::string &missing = "error") {
  const TempFolder folder;
  CAPTURE(reason);
  CHECK_THROWS_WITH_AS(open_samples(folder, make_tar(members), missing), doctest::Contains(reason),
                       FormatError);
  CHECK_THROWS_WITH_AS(open_samples(folder, make_tar(members), missing), doctest::Contains("set.tar: "),
                       FormatError);
}

} // namespace

TEST_CASE("samples are members with one key, in the order of the tar") {
  const TempFolder folder;
  const Dataset dataset = open_samples(folder, make_tar({{"s/b.jpg", "B"},
                                                         {"s/b.seg.png", "mask"},
                                                         {"s/b.cls", "1\n"},
                                                         {"s/a.cls", " 0 "},
                                                         {"s/a.PNG", "A"},
                                                         {"s/a.txt", "a caption"},
                                                         {"x.y/c.cls", "3"},
                                                         {"x.y/c.webp", "C"}}));
  CHECK(ids(dataset) == Names{"s/b.jpg", "s/a.PNG", "x.y/c.webp"});
  CHECK(labels(dataset) == Labels{1, 0, 3});
  CHECK(dataset.classes() == Names{"0", "1", "2", "3"});
  CHECK(noted(dataset, "2 member(s) that are neither"));
  const Encoded record = dataset.read(1);
  CHECK(record.is_file);
  CHECK(record.hash == hash_text("A"));
}

TEST_CASE("every extension of a picture that can be read") {
  const TempFolder folder;
  Members members;
  for (const char *extension :
       {"jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "ppm", "pgm", "pbm", "pnm", "JPG"})
    members.push_back({std::string("key of ") + extension + "." + extension, "x"});
  const Dataset dataset = open_samples(folder, make_tar(members));
  CHECK(dataset.records().size() == members.size());
  CHECK(dataset.classes().empty());
  CHECK(noted(dataset, "no sample has a label"));
}

TEST_CASE("labels: numbers, names, and JSON where there is no .cls") {
  const TempFolder folder;
  const auto pair = [](const std::string &key, const std::string &extension, const std::string &label) {
    return tar_member(key + ".jpg", "x") + tar_member(key + "." + extension, label);
  };
  const Dataset names = open_samples(folder, pair("1", "cls", "zebra") + pair("2", "cls", "ape\n") +
                                                 pair("3", "cls", "7") + tar_end());
  CHECK(names.classes() == Names{"7", "ape", "zebra"});
  CHECK(labels(names) == Labels{2, 1, 0});
  const Dataset json =
      open_samples(folder, pair("1", "json", R"({"label": 2, "cls": 0})") +
                               pair("2", "json", R"({"cls": "1"})") + tar_member("3.json", "{\"label\": 5}") +
                               tar_member("3.jpg", "x") + tar_member("3.cls", "0") + tar_end());
  CHECK(labels(json) == Labels{2, 1, 0});
  for (const std::string &bad :
       {std::string(""), std::string(" \n"), std::string("a\nb"), std::string("a\0b", 3),
        std::string(5000, 'x'), std::string("-1"), std::string("1000000")})
    CHECK_THROWS_AS(open_samples(folder, pair("1", "cls", bad) + tar_end()), FormatError);
  for (const char *bad : {"", "{", "{\"label\": 1.5}", "{\"label\": -1}", "{\"label\": null}",
                          "{\"label\": [1]}", "{\"label\": \"\"}", "{\"label\": 1} x"})
    CHECK_THROWS_WITH_AS(open_samples(folder, pair("1", "json", bad) + tar_end()),
                         doctest::Contains("set.tar"), FormatError);
  const Dataset none =
      open_samples(folder, pair("1", "json", "{\"caption\": 5}") + pair("2", "json", "[1]") + tar_end());
  CHECK(labels(none) == Labels{-1, -1});
}

TEST_CASE("a key that comes back, members twice, two pictures") {
  refused({{"0.jpg", "x"}, {"1.jpg", "x"}, {"0.cls", "0"}, {"1.cls", "1"}}, "key '0' comes back with 0.cls");
  refused({{"0.jpg", "x"}, {"1.jpg", "x"}, {"0.cls", "0"}, {"1.cls", "1"}}, "--sort=name");
  refused({{"0.jpg", "x"}, {"1.jpg", "x"}, {"0.cls", "0"}, {"1.cls", "1"}}, "after 2 samples", "skip");
  refused({{"0.jpg", "x"}, {"0.jpg", "x"}}, "'0.jpg' is in it twice");
  refused({{"0.jpg", "x"}, {"0.cls", "1"}, {"1.jpg", "x"}, {"0.jpg", "x"}}, "'0.jpg' is in it twice");
  refused({{"0.jpg", "x"}, {"0.png", "x"}}, "both 0.jpg and 0.png", "skip");
  refused({{"0.cls", "1"}, {"0.CLS", "1"}}, "both");
}

TEST_CASE("a half that is missing is an error, or left out and counted") {
  const Members no_label = {{"0.jpg", "x"}, {"0.cls", "0"}, {"1.jpg", "x"}, {"2.jpg", "y"}, {"2.cls", "1"}};
  const Members no_picture = {{"0.jpg", "x"}, {"0.cls", "0"}, {"1.cls", "1"}, {"readme.txt", "x"}};
  refused(no_label, "'1' (2 of 3) has no label, as others have; --missing=skip");
  refused(no_picture, "'1' (2 of 3) has no picture; --missing=skip");
  const TempFolder folder;
  const Dataset first = open_samples(folder, make_tar(no_label), "skip");
  CHECK(ids(first) == Names{"0.jpg", "2.jpg"});
  CHECK(labels(first) == Labels{0, 1});
  CHECK(first.read(1).hash == hash_text("y"));
  CHECK(noted(first, "0 sample(s) without a picture and 1 without a label"));
  const Dataset second = open_samples(folder, make_tar(no_picture), "skip");
  CHECK(ids(second) == Names{"0.jpg"});
  CHECK(noted(second, "2 sample(s) without a picture and 0 without a label"));
  CHECK(open_samples(folder, make_tar({{"0.cls", "1"}}), "skip").records().empty());
  CHECK(open_samples(folder, tar_end()).records().empty());
  CHECK_THROWS_AS(open_samples(folder, tar_end(), "ignore"), UsageError);
}

TEST_CASE("a tar that is cut says how many samples were seen") {
  const std::string bytes = make_tar({{"0.jpg", "x"}, {"0.cls", "0"}, {"1.jpg", "x"}, {"1.cls", "1"}});
  const TempFolder folder;
  for (const char *format : {"webdataset", "auto"})
    CHECK_THROWS_WITH_AS(open_samples(folder, bytes.substr(0, 2048), "error", format),
                         doctest::Contains("before that came 1 sample(s)"), FormatError);
}

TEST_CASE("what belongs to the shard, has no extension or is hidden is no sample") {
  const TempFolder folder;
  const Dataset dataset = open_samples(folder, make_tar({{"__meta__.json", "{}"},
                                                         {"LICENSE", "x"},
                                                         {"._0.jpg", "x"},
                                                         {"s/.x/0.jpg", "x"},
                                                         {"0.jpg", "x"}}));
  CHECK(ids(dataset) == Names{"0.jpg"});
  CHECK(dataset.hidden() == 2);
}

TEST_CASE("auto tells samples from packed folders, and says so") {
  const TempFolder folder;
  const auto automatic = [&](const Members &members) {
    return open_samples(folder, make_tar(members), "error", "auto");
  };
  const Dataset samples = automatic({{"a/0.jpg", "x"}, {"a/0.cls", "0"}});
  CHECK(ids(samples) == Names{"a/0.jpg"});
  CHECK(noted(samples, "WebDataset samples because of a/0.cls"));
  CHECK(noted(automatic({{"0.jpg", "x"}, {"0.json", "{}"}}), "because of 0.json"));
  for (const Members &members :
       {Members{{"a/0.jpg", "x"}, {"b/0.png", "x"}}, Members{{"a/0.jpg", "x"}, {"a/index.json", "x"}}}) {
    const Dataset packed = automatic(members);
    CHECK(packed.records().size() == 2);
    CHECK(noted(packed, "a packed folder"));
  }
}

TEST_CASE("sets of shards: a folder of them, or a pattern") {
  const TempFolder folder;
  const auto shard = [](const std::string &name, const std::string &label) {
    return make_tar({{name + ".jpg", name}, {name + ".cls", label}});
  };
  folder.write("shards/b-001.tar", shard("0", "2"));
  folder.write("shards/b-000.tar.gz", packed(shard("0", "1"), "gzip"));
  folder.write("shards/a.tgz", packed(shard("1", "0"), "gzip"));
  folder.write("shards/classnames.txt", "x");
  folder.write("shards/.a.tar.XYZ", "half");
  const Dataset dataset = Dataset::open(folder.path("shards"));
  CHECK(ids(dataset) == Names{"a/1.jpg", "b-000/0.jpg", "b-001/0.jpg"});
  CHECK(labels(dataset) == Labels{0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) CHECK(dataset.read(i).hash == hash_text(i == 0 ? "1" : "0"));
  SourceOptions options;
  options.split = "shards";
  CHECK(ids(Dataset::open(folder.path(), options)) == ids(dataset));

  for (const char *name : {"t-08", "t-09", "t-10", "t-11"})
    folder.write(std::string("sets/") + name + ".tar", shard(name, "0"));
  CHECK(ids(Dataset::open(folder.path("sets/t-{09..10}.tar"))) == Names{"t-09/t-09.jpg", "t-10/t-10.jpg"});
}

TEST_CASE("patterns") {
  const TempFolder folder;
  const auto shard = [](const std::string &name) { return make_tar({{"0.jpg", name}, {"0.cls", "0"}}); };
  for (const char *name : {"a/0", "a/1", "b/0", "b/1", "b/2", "{x,y}"})
    folder.write(std::string(name) + ".tar", shard(name));
  const auto open = [&](const std::string &pattern) { return ids(Dataset::open(folder.path(pattern))); };
  CHECK(open("{b,a}/{0..1}.tar") == Names{"a/0/0.jpg", "a/1/0.jpg", "b/0/0.jpg", "b/1/0.jpg"});
  CHECK(open("b/{1..2}.tar") == Names{"1/0.jpg", "2/0.jpg"});
  CHECK(open("{x,y}.tar") == Names{"0.jpg"}); // a file of that name goes first
  CHECK_THROWS_WITH_AS(open("a/{0..2}.tar"), doctest::Contains("a/2.tar: No such file"), SystemError);
  CHECK_THROWS_AS(open("{0..2.tar"), SystemError);
  CHECK_THROWS_AS(open("{x}.tar"), SystemError);
  CHECK_THROWS_AS(open("{0..999999999}.tar"), UsageError);
  CHECK_THROWS_AS(open("{0..999}{0..999}.tar"), UsageError);
}

TEST_CASE("classes and limits choose among samples, and each keeps its content") {
  const TempFolder folder;
  std::string bytes;
  for (int i = 0; i < 30; ++i) {
    const std::string key = std::to_string(100 + i);
    bytes += tar_member(key + ".cls", std::to_string(i % 3)) + tar_member(key + ".jpg", "pixels of " + key);
  }
  SourceOptions options;
  options.classes = {"2", "0"};
  options.limit = 4;
  const Dataset dataset = Dataset::open(folder.write("set.tar", bytes + tar_end()), options);
  CHECK(dataset.classes() == Names{"2", "0"});
  REQUIRE(dataset.records().size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string key = dataset.records()[i].id.substr(0, 3);
    CHECK((std::stoi(key) - 100) % 3 == (dataset.records()[i].label == 0 ? 2 : 0));
    CHECK(dataset.read(i).hash == hash_text("pixels of " + key));
  }
}

TEST_CASE("what a folder of tars is, and is not") {
  const TempFolder folder;
  const std::string shard = make_tar({{"0.jpg", "x"}, {"0.cls", "0"}});
  SourceOptions tars;
  tars.format = "webdataset";
  folder.write("mixed/photo.png", "x");
  folder.write("mixed/backup.tar", shard);
  CHECK(ids(Dataset::open(folder.path("mixed"))) == Names{"backup.tar", "photo.png"});
  CHECK(ids(Dataset::open(folder.path("mixed"), tars)) == Names{"backup/0.jpg"});
  folder.write("classes/a/x.tar", shard);
  folder.write("classes/b.tar", shard);
  CHECK(ids(Dataset::open(folder.path("classes"))) == Names{"a/x.tar"});
  folder.write("plain/one", shard); // content decides when names do not
  CHECK(ids(Dataset::open(folder.path("plain"))) == Names{"one"});
  CHECK(ids(Dataset::open(folder.path("plain"), tars)) == Names{"one/0.jpg"});
  std::filesystem::create_directory(folder.path("empty"));
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path("empty"), tars), doctest::Contains("no tar"), Error);
  // A packed folder in several tars is the folder that unpacking all of them gives.
  folder.write("parts/2.tar", make_tar({{"set/b/2", "2"}}));
  folder.write("parts/1.tar", make_tar({{"set/a/1", "1"}, {"set/b/1", "1"}}));
  CHECK(ids(Dataset::open(folder.path("parts"))) == Names{"a/1", "b/1", "b/2"});
  folder.write("parts/3.tar", make_tar({{"set/b/2", "3"}}));
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path("parts")), doctest::Contains("b/2"), FormatError);
}
