#include "shard/sink.h"

#include "cli/io.h"
#include "shard/folder.h"
#include "shard/stream.h"
#include "support/files.h"
#include "support/shards.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <thread>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace {

/// The rows of a source as one shard.
Shard all_of(ShardSource &source) {
  std::vector<Shard> shards;
  while (auto shard = source.next()) shards.push_back(std::move(*shard));
  std::vector<RowRef> rows;
  for (const Shard &shard : shards)
    for (std::int64_t i = 0; i < shard.size(); ++i) rows.push_back({&shard, i});
  return gather(source.meta(), rows);
}

} // namespace

TEST_CASE("sinks and sources: a folder, a file and a stream give the same rows") {
  for (const ShardMeta &meta : {values_meta(), files_meta()})
    for (const std::int64_t count : {0, 1, 40}) {
      TempFolder folder;
      const Shard rows = make_rows(meta, 0, count);
      for (const std::string name : {"new/folder", "new/one.safetensors"}) {
        const std::unique_ptr<ShardSink> sink = create_sink(folder.path(name), meta);
        sink->append(slice(rows, 0, count / 2));
        sink->append(slice(rows, count / 2, count));
        const SinkReport report = sink->finish(3);
        CHECK(report.records == count);
        CHECK(report.skipped == 3);
        CHECK(report.changes.has_value() == (name == "new/folder"));
      }
      {
        const cli::Descriptor file(::open(folder.path("stream").c_str(), O_CREAT | O_WRONLY, 0666));
        StreamSink sink(file.get(), "stream", meta, count);
        sink.append(rows);
        sink.finish(3);
      }
      for (const std::string name : {"new/folder", "new/one.safetensors", "stream"}) {
        const std::unique_ptr<ShardSource> source = open_shards(folder.path(name));
        CHECK(source->expected() == count);
        CHECK(same_rows(all_of(*source), rows));
        CHECK(source->skipped() == 3);
        CHECK_FALSE(source->next());
      }
    }
}

TEST_CASE("open_shards: a named pipe is a stream") {
  TempFolder folder;
  REQUIRE(mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  std::thread sender([&] {
    const cli::Descriptor out(::open(folder.path("fifo").c_str(), O_WRONLY));
    StreamSink sink(out.get(), "fifo", values_meta());
    sink.append(make_rows(values_meta(), 0, 5));
    sink.finish(0);
  });
  const std::unique_ptr<ShardSource> source = open_shards(folder.path("fifo"));
  CHECK(same_rows(all_of(*source), make_rows(values_meta(), 0, 5)));
  sender.join();
}

TEST_CASE("open_shards: what holds no shards is an error with its name") {
  TempFolder folder;
  CHECK(message_of([&] { open_shards(folder.path("absent")); }).find("absent") != std::string::npos);
  CHECK(message_of([&] { open_shards(folder.write("empty", "")); }).find("empty") != std::string::npos);
  CHECK(message_of([&] { open_shards(folder.write("text", "hello, world")); }).find("text") !=
        std::string::npos);
  CHECK(message_of([&] { open_shards(folder.path()); }).find("holds no shards") != std::string::npos);
  CHECK_THROWS_AS(create_sink("", values_meta()), UsageError);
}

TEST_CASE("a file that is not finished never appears") {
  TempFolder folder;
  {
    const auto sink = create_sink(folder.path("a.safetensors"), values_meta());
    sink->append(make_rows(values_meta(), 0, 5));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a file is held whole, a folder's shard until it is full, a stream hardly") {
  SinkOptions options;
  options.expected = 1000;
  options.bytes_per_shard = 50'000;
  CHECK(sink_memory("x.safetensors", 100, options) == 200'000);
  CHECK(sink_memory("folder", 100, options) == 150'000);
  CHECK(sink_memory("folder", 10, options) == 20'000);
  CHECK(sink_memory("-", 1 << 20, options) == sink_memory("-", 1, options));
}
