#include "shard/folder.h"

#include "support/clock.h"
#include "support/shard_folder.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace fs = std::filesystem;

namespace {} // namespace

TEST_CASE("folder: any number of records is read back in order, and a second run computes nothing") {
  for (const ShardMeta &meta : {values_meta(), files_meta()})
    for (const std::int64_t count : {0, 1, 3, 4, 5, 8, 150, 400})
      for (const std::int64_t rows : {1, 4, 100}) {
        if (count > 10 && rows < 100) continue; // a shard is synced: many are slow
        TempFolder folder;
        const SinkReport first = run(folder.path(), meta, members(0, count), count, small_shards(rows));
        CHECK(first.records == count);
        CHECK(first.written == count);
        CHECK(first.shards == (count + rows - 1) / rows);
        CHECK(first.changes->added == count);
        CHECK(gives(folder.path(), meta, members(0, count)));
        const SinkReport second = run(folder.path(), meta, members(0, count), 0, small_shards(rows));
        CHECK(second.written == 0);
        CHECK(second.shards == 0);
        CHECK(second.bytes == 0);
        CHECK(second.changes->unchanged == count);
        CHECK(gives(folder.path(), meta, members(0, count)));
      }
}

TEST_CASE("folder: batches of any size make shards of the same rows") {
  for (const std::int64_t batch : {1, 3, 4, 5, 9, 30}) {
    TempFolder folder;
    FolderSink sink(folder.path(), values_meta(), small_shards(4));
    for (std::int64_t i = 0; i < 30; i += batch)
      sink.append(make_rows(values_meta(), i, std::min<std::int64_t>(batch, 30 - i)));
    const SinkReport report = sink.finish(2);
    CHECK(report.shards == 8);
    CHECK(report.skipped == 2);
    CHECK(gives(folder.path(), values_meta(), members(0, 30)));
    FolderSource source(folder.path());
    CHECK(source.skipped() == 2);
  }
  TempFolder folder; // 24 + 5 bytes a row: 3 rows fit
  SinkOptions options;
  options.bytes_per_shard = 100;
  FolderSink sink(folder.path(), values_meta(), options);
  sink.append(make_rows(values_meta(), 0, 10));
  CHECK(sink.finish(0).shards == 4);
  TempFolder files; // of any length: a batch that goes over closes its shard
  options.bytes_per_shard = 300;
  FolderSink file_sink(files.path(), files_meta(), options);
  for (int i = 0; i < 4; ++i) file_sink.append(make_rows(files_meta(), 5 * i, 5));
  CHECK(file_sink.finish(0).shards == 4);
}

TEST_CASE("folder: the same content under several names is stored once and listed as often") {
  std::vector<Member> all = members(0, 6);
  all.push_back(member(2));
  all.back().id = "copy";
  all.back().row = 6;
  TempFolder folder;
  CHECK(run(folder.path(), values_meta(), all, 6).written == 6);
  CHECK(gives(folder.path(), values_meta(), all));
  TempFolder batch; // both on their way in one batch
  FolderSink sink(batch.path(), values_meta(), small_shards());
  Shard rows = make_rows(values_meta(), 0, 5);
  sink.append(gather(values_meta(),
                     {{&rows, 0}, {&rows, 1}, {&rows, 1}, {&rows, 0}, {&rows, 2}, {&rows, 3}, {&rows, 3}}));
  const SinkReport report = sink.finish(0);
  CHECK(report.written == 4);
  CHECK(report.records == 7);
  CHECK(gives(batch.path(), values_meta(),
              {member(0), member(1), member(1), member(0), member(2), member(3), member(3)}));
}

TEST_CASE("folder: added, changed, relabelled, renamed and removed are told apart and cost what they must") {
  TempFolder folder;
  const ShardMeta meta = values_meta();
  run(folder.path(), meta, members(0, 8), 8);
  std::vector<Member> all = members(0, 8);
  all[1].label = all[1].label == 2 ? 0 : all[1].label + 1; // relabelled in place
  all[2].id = "elsewhere";                                 // renamed
  all[3].id = "moved to another class";                    // relabelled by moving
  all[3].label = 0;
  all[4].record = record_hash(20); // changed content
  all.erase(all.begin() + 5);      // removed
  all.push_back(member(30));       // added
  const SinkReport report = run(folder.path(), meta, all, 2);
  REQUIRE(report.changes);
  CHECK(report.changes->unchanged == 3);
  CHECK(report.changes->relabelled == 2);
  CHECK(report.changes->renamed == 1);
  CHECK(report.changes->changed == 1);
  CHECK(report.changes->removed == 1);
  CHECK(report.changes->added == 1);
  CHECK(report.records == 8);
  CHECK(gives(folder.path(), meta, all));
  // The features of what was removed are still there: taking it back costs nothing.
  CHECK(run(folder.path(), meta, members(0, 8), 0).changes->added == 1);
  CHECK(gives(folder.path(), meta, members(0, 8)));
}

TEST_CASE("folder: classes are compared by name, not by number") {
  TempFolder folder;
  run(folder.path(), values_meta(), {member(1), member(2), member(3)}, 3); // labels 0, 1, 2
  ShardMeta renumbered = values_meta();
  renumbered.classes.insert(renumbered.classes.begin(), "ant");
  std::vector<Member> all = {member(1), member(2), member(3)};
  for (Member &one : all) ++one.label;
  const SinkReport report = run(folder.path(), renumbered, all, 0);
  CHECK(report.changes->unchanged == 3);
  CHECK(gives(folder.path(), renumbered, all));
}

TEST_CASE("folder: rows come in the index's order even when they lie scattered") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 700), 700, small_shards(100));
  std::vector<Member> all;
  for (std::int64_t i = 0; i < 100; ++i) all.push_back(member(699 - i));     // backwards
  for (std::int64_t i = 100; i < 350; ++i) all.push_back(member(i));         // long runs
  for (std::int64_t i = 0; i < 300; ++i) all.push_back(member(i * 7 % 700)); // jumps
  for (std::int64_t i = 0; i < 5; ++i) all.push_back(member(i));
  run(folder.path(), values_meta(), all, 0);
  CHECK(gives(folder.path(), values_meta(), all));
  FolderSource source(folder.path());
  std::int64_t total = 0;
  while (const auto shard = source.next()) {
    CHECK(shard->size() <= 256);
    total += shard->size();
  }
  CHECK(total == 655);
  source.rewind();
  CHECK(all_rows(source).size() == 655);
  const Shard picked = source.read({654, 0, 100, 0});
  CHECK(picked.records ==
        std::vector<Digest>{record_hash(4), record_hash(699), record_hash(100), record_hash(699)});
}

TEST_CASE("folder: without an index every shard counts, if they belong together") {
  TempFolder folder;
  CHECK_THROWS_AS(FolderSource(folder.path()), Error);
  run(folder.path(), values_meta(), members(0, 10), 10);
  fs::remove(folder.path("index.safetensors"));
  CHECK(gives(folder.path(), values_meta(), members(0, 10)));
  fs::copy_file(folder.path(shard_name(0)), folder.path(shard_name(7))); // the same rows twice
  CHECK(gives(folder.path(), values_meta(), members(0, 10)));
  ShardMeta other = values_meta();
  other.classes = {"a", "b", "c"};
  folder.write(shard_name(8), shard_bytes(make_rows(other, 50, 2)));
  CHECK(message_of<FormatError>([&] { FolderSource(folder.path()); }).find("its classes are others") !=
        std::string::npos);
  other = values_meta();
  other.codec = "u8";
  folder.write(shard_name(8), shard_bytes(make_rows(other, 50, 2)));
  CHECK(message_of<FormatError>([&] { FolderSource(folder.path()); }).find("codec") != std::string::npos);
}

TEST_CASE("prune: drops exactly the rows that no index names") {
  TempFolder folder;
  CHECK_THROWS_AS(prune(folder.path()), Error);
  const ShardMeta meta = files_meta();
  run(folder.path(), meta, members(0, 16), 16); // shards 0 to 3
  CHECK(prune(folder.path()).rows == 0);
  std::vector<Member> kept = {member(13), member(5), member(0), member(1), member(2), member(3), member(7)};
  kept.push_back(member(5));
  kept.back().id = "again";
  run(folder.path(), meta, kept, 0);
  const PruneReport report = prune(folder.path());
  CHECK(report.rows == 9);
  CHECK(report.shards == 1);
  CHECK(report.bytes > 0);
  CHECK(gives(folder.path(), meta, kept));
  CHECK(run(folder.path(), meta, kept, 0).changes->unchanged == 8);
  CHECK(run(folder.path(), meta, members(0, 16), 9).records == 16);
  run(folder.path(), meta, {}, 0);
  CHECK(prune(folder.path()).rows == 16);
  CHECK(gives(folder.path(), meta, {}));
  CHECK(names_in(folder.path()) == std::vector<std::string>{".lock", "index.safetensors"});
}

TEST_CASE("folder: 100,000 records take seconds") {
  TempFolder folder;
  ShardMeta meta = values_meta();
  const std::clock_t start = std::clock(); // not wall time: the machine may be busy
  {
    FolderSink sink(folder.path(), meta, small_shards(1 << 14));
    for (std::int64_t i = 0; i < 100000; i += 1000) sink.append(make_rows(meta, i, 1000));
    sink.finish(0);
  }
  FolderSink sink(folder.path(), meta);
  for (std::int64_t i = 0; i < 100000; ++i)
    if (sink.has(record_hash(i))) sink.keep(member(i));
  CHECK(sink.finish(0).changes->unchanged == 100000);
  FolderSource source(folder.path());
  std::int64_t records = 0;
  while (const auto shard = source.next()) records += shard->size();
  CHECK(records == 100000);
  CHECK(cpu_seconds(start) < 8);
}

TEST_CASE("folder: rows that do not fit are refused") {
  TempFolder folder;
  FolderSink sink(folder.path(), values_meta());
  CHECK_THROWS_AS(sink.append(make_rows(files_meta(), 0, 1)), Error);
  CHECK_THROWS_AS(sink.keep(member(0)), Error);
  sink.append(make_rows(values_meta(), 0, 1));
  Member wrong = member(0);
  wrong.label = 3;
  CHECK_THROWS_AS(sink.keep(wrong), Error);
}
