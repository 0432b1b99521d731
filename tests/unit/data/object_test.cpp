// Data sets in object stores are those that they are in a folder.
#include "cli/error.h"
#include "data/decode.h"
#include "data/loader.h"
#include "shard/safetensors.h"
#include "support/files.h"
#include "support/object_server.h"
#include "support/pictures.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>

using namespace tl;
using namespace tl::data;
using namespace tl::test;

namespace {

namespace fs = std::filesystem;

struct S3 : FakeS3 {
  using FakeS3::FakeS3;
  static constexpr const char *root = "s3://bucket/";
  static constexpr const char *bucket = "bucket/";
};

struct Swift : FakeSwift {
  using FakeSwift::FakeSwift;
  static constexpr const char *root = "swift://box/";
  static constexpr const char *bucket = "box/";
};

/// Every file of the folder becomes an object below `prefix`.
template <class Store> void upload(Store &store, const TempFolder &folder, const std::string &prefix) {
  for (const auto &entry : fs::recursive_directory_iterator(folder.path())) {
    const std::string path = entry.path().lexically_relative(folder.path()).string();
    std::string &object = store.objects[Store::bucket + prefix + path + (entry.is_directory() ? "/" : "")];
    if (entry.is_directory()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    object.assign(std::istreambuf_iterator<char>(file), {});
  }
}

void check_same(const Dataset &a, const Dataset &b) {
  CHECK(a.classes() == b.classes());
  CHECK(a.hidden() == b.hidden());
  CHECK(a.notes() == b.notes());
  REQUIRE(a.records().size() == b.records().size());
  for (std::size_t i = 0; i < a.records().size(); ++i) {
    CHECK(a.records()[i].id == b.records()[i].id);
    CHECK(a.records()[i].label == b.records()[i].label);
    CHECK(a.read(i).hash == b.read(i).hash);
  }
}

std::string reason(const Dataset &dataset, std::size_t index) {
  try {
    dataset.read(index);
  } catch (const DecodeError &error) {
    return error.what();
  }
  return "";
}

/// Files that a folder and a list may hold; no line ends, for FakeSwift's JSON.
void fill(const TempFolder &folder) {
  for (const char *name :
       {"train/dog/1.png", "train/dog/10.png", "train/dog/9.png", "train/cat/deep/er/x.png",
        "train/cat/a b+c%20d.png", "train/cat/caf\xc3\xa9?x=1#y.png", "train/Zebra/z", "train/beside.txt",
        "train/.hidden/1.png", "train/.hidden/2.png", "train/cat/.DS_Store", "train/cat/deep/._x.png",
        "val/cat/1.png", ".git/config"})
    folder.write(name, std::string("content of ") + name);
  fs::create_directories(folder.path("train/empty"));
}

} // namespace

TEST_CASE_TEMPLATE("a prefix is the folder that was copied there", Store, S3, Swift) {
  TempFolder folder;
  fill(folder);
  Store store;
  upload(store, folder, "my data/");
  for (const char *end : {"", "/"}) {
    check_same(Dataset::open(folder.path("train")),
               Dataset::open(Store::root + std::string("my data/train") + end));
    check_same(Dataset::open(folder.path("val/cat")),
               Dataset::open(Store::root + std::string("my data/val/cat") + end));
  }
  SourceOptions options;
  options.split = "train";
  options.classes = {"dog", "cat"};
  options.limit = 2;
  check_same(Dataset::open(folder.path(), options),
             Dataset::open(Store::root + std::string("my data"), options));
  upload(store, folder, ""); // a whole bucket
  fs::create_directories(folder.path("my data"));
  CHECK(Dataset::open(std::string(Store::root)).classes() ==
        std::vector<std::string>{"my data", "train", "val"});
}

TEST_CASE_TEMPLATE("lists and tensor files in a store", Store, S3, Swift) {
  TempFolder folder;
  fill(folder);
  folder.write("train/some.csv", "path,label\ndog/9.png,b\n\"cat/a b+c%20d.png\",a\n");
  folder.write("train/some.txt", "dog/9.png\tb\ncat/deep/er/x.png\ta\n");
  folder.write("train/some0", std::string("dog/9.png\0dog/1.png\0", 20));
  Tensor rows = Tensor::empty(DType::f32, {3, 2});
  for (int i = 0; i < 6; ++i) rows.as<float>()[i] = static_cast<float>(i);
  Tensor labels = Tensor::empty(DType::i64, {3});
  for (int i = 0; i < 3; ++i) labels.as<std::int64_t>()[i] = i % 2;
  std::string bytes;
  shard::write_safetensors({{{"input", rows}, {"labels", labels}}, {}}, shard::string_sink(bytes));
  folder.write("rows.safetensors", bytes);
  Store store;
  upload(store, folder, "d/");
  const std::string root = Store::root + std::string("d/");
  for (const char *name : {"train/some.csv", "train/some.txt", "train/some0", "rows.safetensors"})
    check_same(Dataset::open(folder.path(name)), Dataset::open(root + name));
  // Objects named by URL, in a list on disk and in one in the store.
  const std::string list =
      "path,label\n" + root + "train/dog/9.png,b\n" + root + "train/cat/a b+c%20d.png,a\n";
  for (const std::string &spec : {folder.write("urls.csv", list), root + "urls.csv"}) {
    store.objects[Store::bucket + std::string("d/urls.csv")] = list;
    const Dataset dataset = Dataset::open(spec);
    CHECK(dataset.records()[0].id == root + "train/dog/9.png");
    CHECK(dataset.read(0).hash == hash_text("content of train/dog/9.png"));
    CHECK(dataset.read(1).hash == hash_text("content of train/cat/a b+c%20d.png"));
  }
}

TEST_CASE("keys that no folder can have") {
  S3 store;
  store.objects["bucket/d/cat//1.png"] = "x"; // of the class cat
  store.objects["bucket/d//1.png"] = "x";
  store.objects["bucket/d/"] = "";
  store.objects["bucket/d/dog/"] = "";
  const Dataset dataset = Dataset::open("s3://bucket/d");
  CHECK(dataset.classes() == std::vector<std::string>{"cat", "dog"});
  REQUIRE(dataset.records().size() == 1);
  CHECK(dataset.records()[0].id == "cat//1.png");
  CHECK(dataset.read(0).hash == hash_text("x"));
  CHECK(dataset.notes().size() == 2);
}

TEST_CASE("what cannot be opened in a store") {
  S3 store;
  store.objects["bucket/d/cat/1.png"] = "x";
  const auto refused = [](const std::string &spec, const SourceOptions &options, const std::string &want) {
    try {
      Dataset::open(spec, options);
      FAIL("opened");
    } catch (const Error &error) {
      CHECK(has(error.what(), want));
    }
  };
  refused("s3://bucket/e", {}, "s3://bucket/e/: no object");
  refused("s3://bucket/ca", {}, "no object");
  refused("s3://nobucket/d", {}, "NoSuchBucket");
  refused("s3://bucket/x.csv", {}, "HTTP 404");
  refused("s3:///d", {}, "names no bucket");
  SourceOptions options;
  options.format = "idx";
  refused("s3://bucket/d", options, "IDX");
  options.format = "tar";
  refused("s3://bucket/e.tar", options, "no such object");
  options = {};
  options.split = "val";
  refused("s3://bucket/d", options, "--split");
}

TEST_CASE_TEMPLATE("a record that cannot be read says why; what concerns them all ends the work", Store, S3,
                   Swift) {
  bool denied = false;
  Store store([&](const WebRequest &request) -> std::optional<WebReply> {
    if (denied && has(request.path(), "/cat/")) return WebReply{403, "", {}};
    if (has(request.path(), "huge.png"))
      return WebReply{200, "", {"ETag: \"x\"", "Content-Length: 99999999999"}, 0, false};
    return std::nullopt;
  });
  for (const char *name : {"0.png", "gone.png", "huge.png"})
    store.objects[Store::bucket + std::string("d/cat/") + name] = "";
  const Dataset dataset = Dataset::open(Store::root + std::string("d"));
  store.objects.erase(Store::bucket + std::string("d/cat/gone.png"));
  CHECK(reason(dataset, 0) == "0 bytes");
  CHECK(has(reason(dataset, 1), "cannot be read: " + std::string(Store::root) + "d/cat/gone.png: HTTP 404"));
  CHECK(has(reason(dataset, 2), "99999999999 bytes are more than"));
  denied = true;
  CHECK_THROWS_AS(dataset.read(0), object::ObjectError);
}

TEST_CASE("reads in flight hide the time that each one takes, and are bounded") {
  S3 *made = nullptr;
  std::atomic<int> most{0};
  S3 store([&](const WebRequest &request) -> std::optional<WebReply> {
    if (!has(request.path(), ".png")) return std::nullopt;
    // Nothing is answered before eight have asked.
    const Stopwatch watch;
    while (made->server.connections() < 8 && watch.seconds() < 20) std::this_thread::yield();
    most = std::max(most.load(), made->server.connections());
    return std::nullopt;
  });
  made = &store;
  const std::string picture = encode_png(gradient(8, 8));
  for (int i = 0; i < 300; ++i) store.objects["bucket/d/cat/" + std::to_string(1000 + i) + ".png"] = picture;
  const Dataset dataset = Dataset::open("s3://bucket/d");
  LoaderOptions options;
  options.threads = 1;
  Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), options);
  std::size_t records = 0;
  while (const auto batch = loader.next())
    for (const std::string &id : batch->ids) CHECK(id == "cat/" + std::to_string(1000 + records++) + ".png");
  CHECK(records == 300);
  CHECK(most >= 8);
  CHECK(most <= 40);
}

TEST_CASE("a loader that is given up does not wait for a server") {
  std::atomic<bool> leave{false};
  S3 store([&](const WebRequest &request) -> std::optional<WebReply> {
    while (has(request.path(), ".png") && !leave) std::this_thread::yield();
    return std::nullopt;
  });
  for (int i = 0; i < 5; ++i) store.objects["bucket/d/cat/" + std::to_string(i) + ".png"] = "x";
  const Dataset dataset = Dataset::open("s3://bucket/d");
  {
    Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), {});
    while (store.server.connections() < 2) std::this_thread::yield();
  }
  leave = true; // only now
}
