// Several writers of one folder, each with its part of the data set.
#include "shard/partition.h"

#include "cli/error.h"
#include "shard/folder_files.h"
#include "support/shard_folder.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace fs = std::filesystem;

namespace {

const Digest kListing = hash_text("the data set");

SinkOptions part_options(std::int64_t index, std::int64_t count, std::int64_t inputs, bool shuffled = false) {
  SinkOptions options = small_shards(3);
  options.part = PartOf{{index, count}, shuffled, 7, kListing, inputs};
  return options;
}

std::vector<Member> part_of(const std::vector<Member> &all, const Partition &part) {
  std::vector<Member> some;
  for (const Member &member : all)
    if (part.holds(member.id)) some.push_back(member);
  return some;
}

std::vector<Member> in_order(std::vector<Member> all, std::uint64_t seed) {
  std::sort(all.begin(), all.end(), [&](const Member &a, const Member &b) {
    return mix(seed, hash_text(a.id)) < mix(seed, hash_text(b.id));
  });
  return all;
}

} // namespace

TEST_CASE("partition: every record is in exactly one part, whatever the number of parts") {
  for (const std::int64_t count : {1, 2, 3, 7, 64})
    for (int i = 0; i < 300; ++i) {
      const std::string id = std::string("class/") + std::to_string(i) + (i % 3 ? ".png" : "\xff\n");
      std::int64_t holders = 0;
      for (std::int64_t index = 1; index <= count; ++index) holders += Partition{index, count}.holds(id);
      REQUIRE(holders == 1);
    }
  std::int64_t first = 0;
  for (int i = 0; i < 4000; ++i) first += Partition{1, 4}.holds(std::to_string(i));
  CHECK(first > 850);
  CHECK(first < 1150);
}

TEST_CASE("partition: what is written as one is read, all else is refused") {
  CHECK(parse_partition("2/4") == Partition{2, 4});
  CHECK(parse_partition("1/1") == Partition{1, 1});
  CHECK(parse_partition("9999/9999").text() == "9999/9999");
  for (const char *text : {"", "/", "0/4", "5/4", "-1/4", "1/0", "1/10000", "1/4x", "x1/4", "1", "1//4",
                           " 1/4", "1/ 4", "1.0/4", "99999999999999999999/99999999999999999999"})
    CHECK_THROWS_AS(parse_partition(text), UsageError);
  CHECK(partition_from_name("2-of-4") == Partition{2, 4});
  for (const char *name : {"02-of-4", "2-of-4-of-5", "-of-4", "2-of-", "5-of-4"})
    CHECK_FALSE(partition_from_name(name));
  CHECK(part_of_index("index-2-of-4.safetensors") == Partition{2, 4});
  CHECK_FALSE(part_of_index("index.safetensors"));
  CHECK(part_of_lock(".lock-2-of-4") == Partition{2, 4});
}

TEST_CASE("partition: parts written in any order become the folder that one writer makes") {
  const std::vector<Member> all = members(0, 20);
  for (const bool shuffled : {false, true})
    for (const std::int64_t count : {2, 3, 32}) { // of 32, some have no record
      TempFolder folder;
      std::int64_t done = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const Partition part{(i * 5) % count + 1, count};
        if (done > 0)
          CHECK(message_of<Error>([&] { FolderSource source(folder.path()); }).find("--partition") !=
                std::string::npos);
        FolderSink sink(folder.path(), values_meta(), part_options(part.index, count, 20, shuffled));
        std::vector<Member> mine = part_of(all, part);
        if (shuffled) mine = in_order(mine, 7);
        CHECK(extract(sink, values_meta(), mine) == static_cast<std::int64_t>(mine.size()));
        const SinkReport report = sink.finish(0);
        REQUIRE(report.part);
        CHECK(static_cast<std::int64_t>(report.part->missing.size()) == count - ++done);
        CHECK(report.records == static_cast<std::int64_t>(mine.size()));
        CHECK(report.changes->added == report.records);
      }
      CHECK(gives(folder.path(), values_meta(), shuffled ? in_order(all, 7) : all));
      // Parts that are done again find everything; so does one writer of the whole, who removes their traces.
      const Partition part{2, count};
      FolderSink sink(folder.path(), values_meta(), part_options(2, count, 20, shuffled));
      CHECK(extract(sink, values_meta(), shuffled ? in_order(part_of(all, part), 7) : part_of(all, part)) ==
            0);
      const SinkReport again = sink.finish(0);
      CHECK(again.part->missing.empty());
      CHECK(again.changes->unchanged == again.records);
      CHECK(again.changes->removed == 0);
    }
}

TEST_CASE("partition: writers of different parts work at once, of one part or of the whole in turn") {
  TempFolder folder;
  FolderSink first(folder.path(), values_meta(), part_options(1, 2, 20));
  FolderSink second(folder.path(), values_meta(), part_options(2, 2, 20));
  CHECK_THROWS_AS(FolderSink(folder.path(), values_meta(), part_options(2, 2, 20)), Error);
  CHECK_THROWS_AS(FolderSink(folder.path(), values_meta(), part_options(3, 3, 20)), Error);
  CHECK_THROWS_AS(FolderSink(folder.path(), values_meta(), small_shards()), Error);
  const std::vector<Member> all = members(0, 20);
  const std::vector<Member> a = part_of(all, {1, 2}), b = part_of(all, {2, 2});
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) { // in step
    if (i < a.size()) extract(first, values_meta(), {a[i]});
    if (i < b.size()) extract(second, values_meta(), {b[i]});
  }
  CHECK(second.finish(0).part->missing == std::vector<std::int64_t>{1});
  CHECK(first.finish(0).part->missing.empty());
  CHECK(gives(folder.path(), values_meta(), all));
}

TEST_CASE("partition: nothing is joined that does not belong together") {
  const std::vector<Member> all = members(0, 20);
  const auto part = [&](const std::string &folder, const Partition &which, SinkOptions options,
                        const ShardMeta &meta, std::int64_t skipped = 0) {
    FolderSink sink(folder, meta, options);
    extract(sink, meta, part_of(all, which));
    return sink.finish(skipped);
  };
  TempFolder folder;
  part(folder.path(), {1, 2}, part_options(1, 2, 20), values_meta());
  SinkOptions other = part_options(2, 2, 20);
  other.part->listing = hash_text("the data set a day later");
  CHECK(part(folder.path(), {2, 2}, other, values_meta()).part->missing == std::vector<std::int64_t>{1});
  CHECK_THROWS_AS(FolderSource(folder.path()), Error);
  CHECK(part(folder.path(), {2, 2}, part_options(2, 2, 20), values_meta()).part->missing.empty());
  CHECK(gives(folder.path(), values_meta(), all));
  // Records that nobody accounts for.
  CHECK_THROWS_AS(part(folder.path(), {2, 2}, part_options(2, 2, 20), values_meta(), 1), Error);
  // A damaged index of another part.
  part(folder.path(), {2, 2}, part_options(2, 2, 20), values_meta());
  std::string bytes = cli::read_file(folder.path("index-2-of-2.safetensors"), 1 << 20);
  bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 1);
  folder.write("index-2-of-2.safetensors", bytes);
  CHECK_THROWS_AS(part(folder.path(), {1, 2}, part_options(1, 2, 20), values_meta()), FormatError);
  CHECK(part(folder.path(), {2, 2}, part_options(2, 2, 20), values_meta()).part->missing.empty());
}

TEST_CASE("partition: one writer of the whole, and pruning, leave no index of a part behind") {
  const std::vector<Member> all = members(0, 8);
  for (const bool by_pruning : {false, true}) {
    TempFolder folder;
    run(folder.path(), values_meta(), all, 8);
    FolderSink(folder.path(), values_meta(), part_options(1, 2, 8)).finish(0);
    CHECK(fs::exists(folder.path("index-1-of-2.safetensors")));
    if (by_pruning)
      prune(folder.path());
    else
      run(folder.path(), values_meta(), all, 0);
    for (const std::string &name : names_in(folder.path())) CHECK(name.find("-of-") == std::string::npos);
    CHECK(gives(folder.path(), values_meta(), all));
  }
}
