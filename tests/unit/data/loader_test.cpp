#include "cli/error.h"
#include "data/loader.h"
#include "support/datasets.h"
#include "support/files.h"
#include "support/pictures.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

using namespace tl;
using namespace tl::data;
using namespace tl::test;

namespace {

/// Pictures 1.png to n.png whose pixels all equal their number; those in `bad` are damaged.
Dataset numbered(const TempFolder &folder, int count, const std::vector<int> &bad = {}) {
  std::string list = "path,label\n";
  for (int i = 1; i <= count; ++i) {
    const std::string name = std::to_string(i) + ".png";
    std::string bytes = encode_png(Raster(6, 5, 3, [&](int, int, int) { return i; }));
    if (std::find(bad.begin(), bad.end(), i) != bad.end()) bytes.resize(bytes.size() / 2);
    folder.write(name, bytes);
    list += name + "," + std::to_string(i % 2) + "\n";
  }
  return Dataset::open(folder.write("list.csv", list));
}

std::vector<Batch> all(Loader &loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  CHECK_FALSE(loader.next().has_value());
  return batches;
}

Names ids(const std::vector<Batch> &batches) {
  Names names;
  for (const Batch &batch : batches) names.insert(names.end(), batch.ids.begin(), batch.ids.end());
  return names;
}

std::vector<std::size_t> sizes(const std::vector<Batch> &batches) {
  std::vector<std::size_t> list;
  for (const Batch &batch : batches) list.push_back(batch.size());
  return list;
}

using Sizes = std::vector<std::size_t>;

LoaderOptions options(std::size_t batch, std::size_t threads = 3, OnError on_error = OnError::fail) {
  LoaderOptions o;
  o.batch = batch;
  o.threads = threads;
  o.on_error = on_error;
  return o;
}

} // namespace

TEST_CASE("as many rows as records, in order, whatever the batch and the threads") {
  for (const int count : {0, 1, 7, 10, 64}) {
    const TempFolder folder;
    const Dataset dataset = numbered(folder, count);
    for (const std::size_t batch : {1U, 3U, 7U, 32U})
      for (const std::size_t threads : {1U, 2U, 5U}) {
        CAPTURE(count);
        CAPTURE(batch);
        Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"),
                      options(batch, threads));
        const std::vector<Batch> batches = all(loader);
        std::size_t row = 0;
        for (std::size_t b = 0; b < batches.size(); ++b) {
          const Batch &one = batches[b];
          if (b + 1 < batches.size()) CHECK(one.size() == batch);
          CHECK(one.input.shape == Shape{static_cast<std::int64_t>(one.size()), 3, 5, 6});
          for (std::size_t i = 0; i < one.size(); ++i, ++row) {
            CHECK(one.index[i] == row);
            CHECK(one.ids[i] == std::to_string(row + 1) + ".png");
            CHECK(one.labels[i] == dataset.records()[row].label);
            CHECK(one.hashes[i] == dataset.read(row).hash);
            CHECK(one.input.as<float>()[i * 90] == static_cast<float>(row + 1) / 255.0F);
            CHECK(one.input.as<float>()[i * 90 + 89] == static_cast<float>(row + 1) / 255.0F);
          }
        }
        CHECK(row == static_cast<std::size_t>(count));
        CHECK(loader.counters().delivered == row);
      }
  }
}

TEST_CASE("batches may change their size at any moment; every record comes, in order") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 64);
  for (const std::size_t threads : {1U, 3U}) {
    Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), options(16, threads));
    std::vector<Batch> batches;
    for (const std::size_t size : {16U, 1U, 5U, 30U, 2U, 64U}) {
      loader.set_batch(size);
      auto batch = loader.next();
      REQUIRE(batch.has_value());
      batches.push_back(std::move(*batch));
    }
    CHECK(sizes(batches) == Sizes{16, 1, 5, 30, 2, 10});
    CHECK_FALSE(loader.next().has_value());
    CHECK(ids(batches) == ids(dataset));
    CHECK_THROWS_AS(loader.set_batch(0), UsageError);
  }
}

TEST_CASE("a smaller batch reads less far ahead") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 64);
  std::atomic<int> read{0};
  LoaderOptions o = options(1, 1);
  o.wanted = [&read](std::uint32_t, const Digest &) {
    ++read;
    return true;
  };
  Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), o);
  loader.set_batch(16);
  while (read < static_cast<int>(Loader::read_ahead(16, 1))) std::this_thread::yield();
  loader.set_batch(2);
  const int before = read;
  for (int i = 0; i < 10; ++i) REQUIRE(loader.next()->size() == 2); // of what is there already
  CHECK(read <= std::max<int>(before, 20 + static_cast<int>(Loader::read_ahead(2, 1))));
}

TEST_CASE("the order asked for is the order delivered") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 40);
  const auto order = record_order(dataset, true, 5);
  Loader loader(dataset, order, parse_preprocess("raw"), options(7, 4));
  std::vector<std::uint32_t> got;
  for (const Batch &batch : all(loader)) got.insert(got.end(), batch.index.begin(), batch.index.end());
  CHECK(got == order);
  Loader some(dataset, {30, 2, 2}, parse_preprocess("raw"), options(7, 4));
  CHECK(ids(all(some)) == Names{"31.png", "3.png", "3.png"});
  CHECK_THROWS_AS(Loader(dataset, {40}, parse_preprocess("raw"), options(7)), Error);
}

TEST_CASE("bad records are skipped and named, and the batch is filled with the next") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 10, {4});
  Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"),
                options(3, 3, OnError::skip));
  const std::vector<Batch> batches = all(loader);
  CHECK(sizes(batches) == Sizes{3, 3, 3});
  CHECK(ids(batches) ==
        Names{"1.png", "2.png", "3.png", "5.png", "6.png", "7.png", "8.png", "9.png", "10.png"});
  REQUIRE(loader.skipped().size() == 1);
  CHECK(loader.skipped()[0].id == "4.png");
  CHECK(loader.skipped()[0].index == 3);
  CHECK(loader.skipped()[0].reason.find("damaged PNG") == 0);

  const TempFolder hopeless;
  const Dataset none = numbered(hopeless, 5, {1, 2, 3, 4, 5});
  Loader empty(none, record_order(none, false, 0), parse_preprocess("raw"), options(3, 2, OnError::skip));
  CHECK(all(empty).empty());
  CHECK(empty.skipped().size() == 5);
}

TEST_CASE("without skipping, the first bad record in order ends the work and is named") {
  for (const std::size_t threads : {1U, 4U}) {
    const TempFolder folder;
    const Dataset dataset = numbered(folder, 12, {5, 9});
    Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), options(2, threads));
    CHECK(loader.next()->size() == 2);
    CHECK(loader.next()->size() == 2);
    CHECK_THROWS_WITH_AS(loader.next(), doctest::Contains("5.png: damaged PNG"), Error);
  }
}

TEST_CASE("a file that vanishes is a bad record") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 4);
  std::filesystem::remove(folder.path("2.png"));
  Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"),
                options(4, 2, OnError::skip));
  CHECK(ids(all(loader)) == Names{"1.png", "3.png", "4.png"});
  CHECK(loader.skipped()[0].reason.find("No such file") != std::string::npos);
}

TEST_CASE("accepted with a warning: counted, and delivered") {
  const TempFolder folder;
  const std::string bytes = encode_jpeg(gradient(32, 32));
  folder.write("1.jpg", bytes);
  folder.write("2.jpg", bytes.substr(0, bytes.size() - 2));
  const Dataset dataset = Dataset::open(folder.path());
  Loader loader(dataset, {0, 1}, parse_preprocess("raw"), options(4));
  CHECK(all(loader)[0].size() == 2);
  REQUIRE(loader.warned().size() == 1);
  CHECK(loader.warned()[0].id == "2.jpg");
}

TEST_CASE("unwanted records are read for their hash but not decoded") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 9, {3}); // decoding 3 would fail
  std::mutex mutex;
  std::vector<Digest> seen(9);
  LoaderOptions o = options(2);
  o.wanted = [&](std::uint32_t index, const Digest &hash) {
    const std::lock_guard<std::mutex> lock(mutex);
    seen[index] = hash;
    return index % 3 == 0;
  };
  Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), o);
  CHECK(ids(all(loader)) == Names{"1.png", "4.png", "7.png"});
  CHECK(loader.counters().unwanted == 6);
  CHECK(loader.skipped().empty());
  for (std::uint32_t i = 0; i < 9; ++i) CHECK(seen[i] == dataset.read(i).hash);
  o.wanted = [](std::uint32_t, const Digest &) { return false; };
  Loader nothing(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), o);
  CHECK(all(nothing).empty());
  CHECK(nothing.counters().decode_seconds == 0);
  CHECK(nothing.counters().bytes_read > 0);
}

TEST_CASE("pixels and encoded bytes lead to the same input") {
  const TempFolder folder;
  for (int i = 0; i < 6; ++i) folder.write(std::to_string(i) + ".jpg", encode_jpeg(gradient(60 + i * 7, 50)));
  const Dataset dataset = Dataset::open(folder.path());
  const Preprocess preprocess = parse_preprocess("imagenet,resize=40,crop=32");
  const auto order = record_order(dataset, false, 0);
  const auto load = [&](Form form) {
    LoaderOptions o = options(6);
    o.form = form;
    Loader loader(dataset, order, preprocess, o);
    return std::move(all(loader)[0]);
  };
  const Batch input = load(Form::input), pixels = load(Form::pixels), encoded = load(Form::encoded);
  CHECK(input.input.dtype == DType::f32);
  CHECK(pixels.input.dtype == DType::u8);
  CHECK(input.hashes == encoded.hashes);
  const Tensor later = normalise(preprocess, pixels.input);
  CHECK(!std::memcmp(later.data.get(), input.input.data.get(), input.input.bytes()));
  Preparer preparer(preprocess);
  REQUIRE(encoded.encoded.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const Tensor one = preparer.input(encoded.encoded[i]);
    CHECK(!std::memcmp(one.data.get(), input.input.data.get() + i * one.bytes(), one.bytes()));
  }
}

TEST_CASE("pictures of different sizes need a crop, and the error says so") {
  const TempFolder folder;
  folder.write("1.png", encode_png(gradient(10, 10)));
  folder.write("2.png", encode_png(gradient(12, 10)));
  const Dataset dataset = Dataset::open(folder.path());
  Loader loader(dataset, {0, 1}, parse_preprocess("raw"), options(2, 1, OnError::skip));
  CHECK_THROWS_WITH_AS(loader.next(), doctest::Contains("2.png: becomes 3x10x12"), Error);
}

TEST_CASE("a preprocessing that does not fit the records is refused at once") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 2);
  for (const char *text : {"tensor", "tokens"})
    CHECK_THROWS_AS(Loader(dataset, {0}, parse_preprocess(text), options(1)), UsageError);
  CHECK_THROWS_AS(Loader(dataset, {0}, parse_preprocess("raw"), options(0)), UsageError);
}

TEST_CASE("a loader can be left at any moment, and reads no further ahead than its bound") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 200);
  for (int taken = 0; taken < 4; ++taken) {
    std::atomic<int> read{0};
    LoaderOptions o = options(4, 3);
    o.wanted = [&](std::uint32_t, const Digest &) { return ++read, true; };
    const auto start = std::chrono::steady_clock::now();
    {
      Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), o);
      for (int i = 0; i < taken; ++i) CHECK(loader.next()->size() == 4);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    CHECK(read <= taken * 4 + 2 * 4 + 2 * 3);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  }
}

TEST_CASE("an exception in a callback reaches the caller in order") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 20);
  LoaderOptions o = options(4, 3, OnError::skip);
  o.wanted = [](std::uint32_t index, const Digest &) {
    if (index == 9) throw std::runtime_error("no room");
    return true;
  };
  Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), o);
  CHECK(loader.next()->size() == 4);
  CHECK(loader.next()->size() == 4);
  CHECK_THROWS_WITH(loader.next(), "no room");
}

TEST_CASE("time and bytes are counted") {
  const TempFolder folder;
  folder.write("1.jpg", encode_jpeg(gradient(300, 300)));
  const Dataset dataset = Dataset::open(folder.path());
  Loader loader(dataset, {0}, parse_preprocess("imagenet"), options(1));
  all(loader);
  const LoaderCounters counters = loader.counters();
  CHECK(counters.bytes_read == std::filesystem::file_size(folder.path("1.jpg")));
  CHECK(counters.read_seconds > 0);
  CHECK(counters.decode_seconds > 0);
  CHECK(counters.resize_seconds > 0);
}

namespace {
/// Knows the records with an even index.
struct EvenKnown : HashCache {
  std::vector<Digest> hashes;
  std::mutex mutex;
  std::vector<std::uint32_t> stored;
  std::optional<Digest> find(std::uint32_t index) override {
    return index % 2 ? std::nullopt : std::optional<Digest>(hashes[index]);
  }
  void store(std::uint32_t index, const Digest &hash) override {
    CHECK(hash == hashes[index]);
    const std::lock_guard<std::mutex> guard(mutex);
    stored.push_back(index);
  }
};
} // namespace

TEST_CASE("a record whose hash is known is read only if it is wanted") {
  const TempFolder folder;
  const Dataset dataset = numbered(folder, 9);
  EvenKnown known;
  for (std::size_t i = 0; i < 9; ++i) known.hashes.push_back(dataset.read(i).hash);
  for (const bool want : {false, true}) {
    known.stored.clear();
    LoaderOptions o = options(4);
    o.hashes = &known;
    o.wanted = [&](std::uint32_t, const Digest &) { return want; };
    Loader loader(dataset, record_order(dataset, false, 0), parse_preprocess("raw"), o);
    CHECK(ids(all(loader)).size() == (want ? 9 : 0));
    CHECK(known.stored.size() == (want ? 9 : 4));
    CHECK((loader.counters().bytes_read > 0));
  }
}

TEST_CASE("the order by content does not know names") {
  const TempFolder folder, moved;
  const Dataset dataset = numbered(folder, 30, {7});
  std::string list = "path,label\n";
  for (int i = 30; i >= 1; --i) {
    std::filesystem::copy_file(folder.path(std::to_string(i) + ".png"),
                               moved.path("x" + std::to_string(i * i)));
    list += "x" + std::to_string(i * i) + "," + std::to_string(i % 2) + "\n";
  }
  const Dataset renamed = Dataset::open(moved.write("list.csv", list));
  const auto contents = [](const Dataset &of, const std::vector<std::uint32_t> &order) {
    std::vector<Digest> hashes;
    for (const std::uint32_t index : order) hashes.push_back(of.read(index).hash);
    return hashes;
  };
  const std::vector<Digest> order = contents(dataset, content_order(dataset, 3, 2));
  CHECK(order.size() == 30);
  CHECK(order == contents(renamed, content_order(renamed, 3, 1)));
  CHECK(order != contents(dataset, content_order(dataset, 4, 2)));
}
