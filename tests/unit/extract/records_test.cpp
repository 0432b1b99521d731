// What becomes of records that are damaged, known already, or stop the work.
#include "cli/error.h"
#include "support/extraction.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using test::MemorySink;

namespace {

struct Fixture {
  test::TempFolder folder;
  test::Photos photos;
  model::Model model = test::load_small(test::save(test::conv_net(), folder.path("model.pt")));
  extract::Prefix prefix = test::prefix_at(model, "block");

  Fixture() {
    for (int i = 0; i < 10; ++i) photos.add(id(i), static_cast<unsigned>(i));
  }
  static std::string id(int i) { return (i < 6 ? "cat/" : "dog/") + std::to_string(i) + ".ppm"; }

  MemorySink empty_sink(const data::Dataset &dataset) const {
    MemorySink sink;
    sink.meta = prefix.meta();
    sink.meta.classes = dataset.classes();
    return sink;
  }
};

extract::ExtractOptions options(std::int64_t batch, bool keep_going = false) {
  extract::ExtractOptions result;
  result.batch = batch;
  result.keep_going = keep_going;
  return result;
}

/// Extracts into a folder as tl-extract does.
extract::ExtractReport into(const std::string &folder, const data::Dataset &dataset,
                            const extract::Prefix &prefix, const extract::ExtractOptions &how = {}) {
  shard::ShardMeta meta = prefix.meta();
  meta.classes = dataset.classes();
  const auto sink = shard::create_sink(folder, meta);
  return extract::extract(dataset, prefix, *sink, how);
}

/// All members as a reader sees them: "id label".
std::vector<std::string> read_folder(const std::string &folder) {
  shard::FolderSource source(folder);
  std::vector<std::string> members;
  while (const auto rows = source.next())
    for (std::size_t i = 0; i < rows->ids.size(); ++i)
      members.push_back(rows->ids[i] + " " + std::to_string(rows->labels[i]));
  return members;
}

} // namespace

TEST_CASE_FIXTURE(Fixture, "a damaged record is skipped and named, wherever it is") {
  for (const std::vector<int> &bad : {std::vector<int>{3}, {0}, {9}, {0, 1, 2}, {4, 9}}) {
    for (const std::int64_t batch : {1, 3, 10}) {
      test::Photos some;
      std::vector<std::string> good, damaged;
      for (int i = 0; i < 10; ++i) {
        const bool broken = std::count(bad.begin(), bad.end(), i) > 0;
        broken ? some.add_damaged(id(i)) : some.add(id(i), static_cast<unsigned>(i));
        (broken ? damaged : good).push_back(id(i));
      }
      const data::Dataset dataset = data::Dataset::open(some.root());
      MemorySink sink = empty_sink(dataset);
      const extract::ExtractReport report = extract::extract(dataset, prefix, sink, options(batch, true));
      CHECK(sink.ids() == good);
      CHECK(sink.skipped == static_cast<std::int64_t>(damaged.size()));
      CHECK(report.inputs == 10);
      CHECK(report.computed == static_cast<std::int64_t>(good.size()));
      REQUIRE(report.skipped.size() == damaged.size());
      for (std::size_t i = 0; i < damaged.size(); ++i) {
        CHECK(report.skipped[i].id == damaged[i]);
        CHECK(!report.skipped[i].reason.empty());
      }
    }
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "without --keep-going the first damaged record ends the work; what was done stays") {
  photos.add_damaged(id(7));
  const data::Dataset dataset = data::Dataset::open(photos.root());
  MemorySink sink = empty_sink(dataset);
  CHECK_THROWS_WITH_AS(extract::extract(dataset, prefix, sink, options(2)), doctest::Contains("dog/7.ppm"),
                       Error);
  CHECK(sink.failure.find("dog/7.ppm") != std::string::npos);
  CHECK(sink.skipped == -1);       // never finished
  CHECK(sink.members.size() == 6); // whole batches before it
}

TEST_CASE_FIXTURE(Fixture, "after an error the next run computes only the rest") {
  photos.add_damaged(id(7));
  const std::string out = folder.path("out");
  CHECK_THROWS_AS(into(out, data::Dataset::open(photos.root()), prefix, options(2)), Error);
  photos.add(id(7), 7);
  const extract::ExtractReport report = into(out, data::Dataset::open(photos.root()), prefix, options(2));
  CHECK(report.kept == 6);
  CHECK(report.computed == 4);
  CHECK(read_folder(out).size() == 10);
}

TEST_CASE_FIXTURE(Fixture, "all records damaged") {
  test::Photos bad;
  for (int i = 0; i < 3; ++i) bad.add_damaged(id(i));
  const data::Dataset dataset = data::Dataset::open(bad.root());
  MemorySink sink = empty_sink(dataset);
  const extract::ExtractReport report = extract::extract(dataset, prefix, sink, options(2, true));
  CHECK(report.skipped.size() == 3);
  CHECK(sink.members.empty());
  CHECK(sink.skipped == 3);
}

TEST_CASE_FIXTURE(Fixture, "known records are neither decoded nor computed, and keep their places") {
  const data::Dataset dataset = data::Dataset::open(photos.root());
  MemorySink first = empty_sink(dataset);
  extract::extract(dataset, prefix, first);
  for (unsigned known = 0; known < 1024; known += 37) { // which of the ten are known, as bits
    MemorySink sink = empty_sink(dataset);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < 10; ++i)
      if (known >> i & 1) {
        sink.features[first.members[i].record] = first.row(i);
        ++count;
      }
    const extract::ExtractReport report = extract::extract(dataset, prefix, sink, options(3));
    CHECK(sink.ids() == first.ids());
    CHECK(report.kept == count);
    CHECK(report.computed == 10 - count);
  }
}

TEST_CASE_FIXTURE(Fixture, "known records, damaged records and another order together") {
  photos.add_damaged(id(2));
  photos.add_damaged(id(8));
  const data::Dataset dataset = data::Dataset::open(photos.root());
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    extract::ExtractOptions how = options(2, true);
    how.shuffle = true;
    how.seed = seed;
    MemorySink sink = empty_sink(dataset);
    extract::extract(dataset, prefix, sink, how);
    MemorySink again = empty_sink(dataset);
    for (std::size_t i = 0; i < 8; i += 2) again.features[sink.members[i].record] = sink.row(i);
    const extract::ExtractReport report = extract::extract(dataset, prefix, again, how);
    CHECK(again.ids() == sink.ids());
    CHECK(report.kept == 4);
    CHECK(report.skipped.size() == 2);
  }
}

TEST_CASE_FIXTURE(Fixture, "a feature that is not finite makes its record a damaged one") {
  // The logarithm of a negative number; some pictures of noise have one, others do not.
  const std::string path = test::save(
      test::from_source("def forward(self, x):\n  return torch.log(torch.mean(x, [2, 3]) + 0.1)\n"),
      folder.path("log.pt"));
  const data::Preprocess scaled = data::parse_preprocess("resize=8x8,mean=0.5/0.5/0.5,std=0.5/0.5/0.5");
  const model::Model log = test::load_small(path, scaled);
  const std::string output = log.graph.values[static_cast<std::size_t>(log.graph.output)].name;
  const graph::Cut cut{static_cast<int>(log.graph.nodes.size()), {log.graph.output}, 0};
  const extract::Prefix unsound(log, cut, scaled);
  folder.write("p/dark.ppm", "P6\n8 8\n255\n" + std::string(192, '\0'));
  folder.write("p/grey.ppm", "P6\n8 8\n255\n" + std::string(192, '\x80'));
  folder.write("p/light.ppm", "P6\n8 8\n255\n" + std::string(192, '\xff'));
  const data::Dataset dataset = data::Dataset::open(folder.path("p"));
  for (const std::int64_t batch : {1, 2, 3}) {
    MemorySink sink;
    sink.meta = unsound.meta();
    CHECK_THROWS_WITH_AS(extract::extract(dataset, unsound, sink, options(batch)),
                         doctest::Contains("dark.ppm"), Error);
    CHECK(sink.members.empty());
    MemorySink rest;
    rest.meta = unsound.meta();
    const extract::ExtractReport report = extract::extract(dataset, unsound, rest, options(batch, true));
    CHECK(rest.ids() == std::vector<std::string>{"grey.ppm", "light.ppm"});
    REQUIRE(report.skipped.size() == 1);
    CHECK(report.skipped[0].id == "dark.ppm");
    CHECK(report.skipped[0].reason.find(output) != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "a sink that fails ends the work with its own error") {
  const data::Dataset dataset = data::Dataset::open(photos.root());
  for (const int call : {0, 1, 4}) {
    MemorySink sink = empty_sink(dataset);
    sink.fail_at = call;
    CHECK_THROWS_WITH_AS(extract::extract(dataset, prefix, sink, options(2)), "the sink is full", Error);
    CHECK(sink.failure.empty()); // it knows
    CHECK(sink.members.size() == static_cast<std::size_t>(2 * call));
  }
}

TEST_CASE_FIXTURE(Fixture, "a batch of no records is wrong usage") {
  const data::Dataset dataset = data::Dataset::open(photos.root());
  MemorySink sink = empty_sink(dataset);
  CHECK_THROWS_AS(extract::extract(dataset, prefix, sink, options(0)), UsageError);
}

TEST_CASE_FIXTURE(Fixture, "a second run computes only what is new, and says what changed") {
  const std::string out = folder.path("out");
  const auto run = [&] { return into(out, data::Dataset::open(photos.root()), prefix, options(3)); };
  CHECK(run().sink.changes->added == 10);

  extract::ExtractReport report = run();
  CHECK(report.computed == 0);
  CHECK(report.kept == 10);
  CHECK(report.sink.changes->unchanged == 10);
  CHECK(report.sink.bytes == 0);

  photos.move("cat/1.ppm", "dog/1.ppm"); // another label
  report = run();
  CHECK(report.computed == 0);
  CHECK(report.sink.changes->relabelled == 1);
  CHECK(read_folder(out).at(5) == "dog/1.ppm 1");

  photos.move("cat/0.ppm", "cat/zero.ppm"); // another name
  report = run();
  CHECK(report.computed == 0);
  CHECK(report.sink.changes->renamed == 1);

  photos.remove("cat/2.ppm");
  report = run();
  CHECK(report.sink.changes->removed == 1);
  CHECK(read_folder(out).size() == 9);

  photos.add("cat/3.ppm", 99); // other pixels under the same name and size
  report = run();
  CHECK(report.computed == 1);
  CHECK(report.sink.changes->changed == 1);

  photos.add("emu/new.ppm", 100); // a new class moves the numbers of the others
  report = run();
  CHECK(report.computed == 1);
  CHECK(report.sink.changes->added == 1);
  CHECK(report.sink.changes->relabelled == 0);
  CHECK(read_folder(out).size() == 10);

  photos.add("cat/2.ppm", 2); // back again: its features were never thrown away
  report = run();
  CHECK(report.computed == 0);
  CHECK(report.sink.changes->added == 1);
}

TEST_CASE_FIXTURE(Fixture, "equal files are computed or kept, each with its own label") {
  test::Photos twins;
  twins.add("cat/a.ppm", 1);
  twins.add("cat/b.ppm", 1);
  twins.add("dog/c.ppm", 1);
  twins.add("dog/d.ppm", 2);
  const data::Dataset dataset = data::Dataset::open(twins.root());
  const std::string out = folder.path("twins");
  for (const std::int64_t batch : {1, 2, 4}) {
    const extract::ExtractReport report = into(out, dataset, prefix, options(batch));
    CHECK(report.sink.records == 4);
    CHECK(read_folder(out) ==
          std::vector<std::string>{"cat/a.ppm 0", "cat/b.ppm 0", "dog/c.ppm 1", "dog/d.ppm 1"});
  }
}

TEST_CASE_FIXTURE(Fixture, "the report is a valid document and names the busiest stage") {
  photos.add_damaged("cat/bad\n\xff.ppm");
  const data::Dataset dataset = data::Dataset::open(photos.root());
  const extract::ExtractReport report = into(folder.path("out"), dataset, prefix, options(4, true));
  const json::Value document = to_json(report, photos.root(), "out", prefix.meta());
  json::validate(document, "extraction", "the report");
  CHECK(document["inputs"] == 11);
  CHECK(document["records"] == 10);
  CHECK(document["skipped"].size() == 1);
  CHECK(document["changes"]["added"] == 10);
  for (const shard::Stage &stage : report.stages) CHECK(stage.busy <= 1.5);
  CHECK(extract::summary(report).size() == 3);

  extract::ExtractReport made;
  const auto busiest = [&](double read, double decode, double compute, double write) {
    made.stages = {{"read", 0, read}, {"decode", 0, decode}, {"compute", 0, compute}, {"write", 0, write}};
    return made.bottleneck();
  };
  CHECK(busiest(0.1, 0.2, 0.9, 0.3) == "compute");
  CHECK(busiest(0.4, 0.5, 0.8, 0.3) == "decode"); // they share their threads
  CHECK(busiest(0.5, 0.4, 0.8, 0.3) == "read");
  CHECK(busiest(0.1, 0.1, 0.1, 0.3) == "write");
}
