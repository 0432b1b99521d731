// Damage, crashes, second writers and full disks: a folder never lies.
#include "shard/folder.h"

#include "cli/io.h"
#include "support/shard_folder.h"

#include <doctest/doctest.h>

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace fs = std::filesystem;

namespace {

/// Runs `child` in a process of its own and returns its wait status.
template <class Child> int in_process(const Child &child, int kill_after_us = -1) {
  const pid_t pid = fork();
  if (pid == 0) {
    try {
      child();
    } catch (const Error &) {
      _exit(9);
    }
    _exit(0);
  }
  if (kill_after_us >= 0) {
    usleep(static_cast<useconds_t>(kill_after_us));
    kill(pid, SIGKILL);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

} // namespace

TEST_CASE("folder: a damaged, short or empty shard is noticed by readers and redone by the next run") {
  const std::string good = shard_bytes(make_rows(values_meta(), 0, 4));
  for (const int lost : {1, 2, 50, 100, 0, -1}) { // -1: all of it; 0: a flipped byte
    TempFolder folder;
    run(folder.path(), values_meta(), members(0, 12), 12);
    const std::string path = folder.path(shard_name(1));
    std::string bytes = cli::read_file(path, 1 << 20);
    if (lost == 0) bytes[bytes.size() - 10] = static_cast<char>(bytes[bytes.size() - 10] ^ 4);
    bytes.resize(lost < 0 ? 0 : bytes.size() - static_cast<std::size_t>(lost));
    folder.write(shard_name(1), bytes);
    FolderSource source(folder.path());
    CHECK(message_of<FormatError>([&] { all_rows(source); }).find(shard_name(1)) != std::string::npos);
    {
      FolderSink sink(folder.path(), values_meta(), small_shards());
      REQUIRE(sink.notes().size() == 1);
      CHECK(sink.notes()[0].find(shard_name(1)) != std::string::npos);
      CHECK_FALSE(fs::exists(path));
      CHECK_THROWS_AS(FolderSource(folder.path()), FormatError); // the old index names it
      CHECK(extract(sink, values_meta(), members(0, 12)) == 4);
      sink.finish(0);
    }
    CHECK(gives(folder.path(), values_meta(), members(0, 12)));
    CHECK(run(folder.path(), values_meta(), members(0, 12), 0).changes->unchanged == 12);
  }
}

TEST_CASE("folder: a damaged index is an error for readers and made again by the next run") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 6), 6);
  std::string bytes = cli::read_file(folder.path("index.safetensors"), 1 << 20);
  std::size_t silent = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 7) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    folder.write("index.safetensors", bad);
    silent += message_of<FormatError>([&] { FolderSource source(folder.path()); }).empty();
  }
  CHECK(silent == 0);
  bytes.resize(bytes.size() - 1);
  folder.write("index.safetensors", bytes);
  CHECK_THROWS_AS(FolderSource(folder.path()), FormatError);
  FolderSink sink(folder.path(), values_meta());
  CHECK(sink.notes().size() == 1);
  CHECK(extract(sink, values_meta(), members(0, 6)) == 0);
  sink.finish(0);
  CHECK(gives(folder.path(), values_meta(), members(0, 6)));
}

TEST_CASE("folder: features of another key are refused with the reason, and replaced only by force") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 6), 6);
  const auto before = names_in(folder.path());
  ShardMeta other = values_meta();
  other.values[0].hash = hash_text("retrained");
  for (const bool with_index : {true, false}) {
    if (!with_index) fs::remove(folder.path("index.safetensors"));
    const std::string message = message_of([&] { FolderSink(folder.path(), other); });
    CHECK(message.find("'layer3.5' comes from other weights") != std::string::npos);
    CHECK(message.find("--force") != std::string::npos);
    CHECK(gives(folder.path(), values_meta(), members(0, 6))); // nothing was touched
  }
  SinkOptions options = small_shards();
  options.force = true;
  CHECK(run(folder.path(), other, members(0, 6), 6, options).changes->added == 6);
  CHECK(gives(folder.path(), other, members(0, 6)));
  CHECK(names_in(folder.path()).size() == before.size());
}

TEST_CASE("folder: what newer tools or other programs wrote is never removed") {
  TempFolder folder;
  std::string bytes = shard_bytes(make_rows(values_meta(), 0, 4));
  const std::size_t version = bytes.find(R"("version":"1")");
  bytes[version + 11] = '2';
  folder.write(shard_name(0), bytes);
  SinkOptions force;
  force.force = true;
  CHECK_THROWS_AS(FolderSink(folder.path(), values_meta(), force), NewerVersion);
  CHECK_THROWS_AS(FolderSource(folder.path()), NewerVersion);
  CHECK(cli::read_file(folder.path(shard_name(0)), 1 << 20) == bytes);
  std::string foreign;
  write_safetensors({{{"weight", Tensor::empty(DType::f32, {4})}}, {}}, string_sink(foreign));
  folder.write(shard_name(0), foreign);
  CHECK_THROWS_AS(FolderSink(folder.path(), values_meta(), force), ForeignFile);
  CHECK(cli::read_file(folder.path(shard_name(0)), 1 << 20) == foreign);
}

TEST_CASE("folder: a second writer fails at once and names the first") {
  TempFolder folder;
  {
    FolderSink sink(folder.path(), values_meta());
    const std::string message = message_of([&] { FolderSink(folder.path(), values_meta()); });
    CHECK(message.find("process " + std::to_string(getpid()) + " is writing here") != std::string::npos);
    CHECK(message_of([&] { prune(folder.path()); }).find("is writing here") != std::string::npos);
    CHECK(WEXITSTATUS(in_process([&] { FolderSink(folder.path(), values_meta()); })) == 9);
    sink.append(make_rows(values_meta(), 0, 3));
    sink.finish(0);
  }
  CHECK(run(folder.path(), values_meta(), members(0, 3), 0).records == 3);
}

TEST_CASE("folder: an extraction that never finished is not a small data set") {
  TempFolder folder;
  {
    FolderSink sink(folder.path(), values_meta(), small_shards());
    sink.append(make_rows(values_meta(), 0, 10));
    CHECK(message_of([&] { FolderSource(folder.path()); }).find("has not finished") != std::string::npos);
  } // destroyed without finish(): 8 rows are in shards, 2 are lost
  CHECK(message_of([&] { FolderSource(folder.path()); }).find("has not finished") != std::string::npos);
  CHECK(run(folder.path(), values_meta(), members(0, 10), 2).records == 10);
  CHECK(gives(folder.path(), values_meta(), members(0, 10)));
  // Later, the index of the last whole extraction stays what readers see.
  {
    FolderSink sink(folder.path(), values_meta(), small_shards());
    extract(sink, values_meta(), members(0, 31));
  }
  CHECK(gives(folder.path(), values_meta(), members(0, 10)));
  CHECK(run(folder.path(), values_meta(), members(0, 31), 1).changes->added == 21);
}

TEST_CASE("folder: killed at any moment, the next run completes it and leaves no leftovers") {
  ShardMeta meta = values_meta();
  meta.values[0].shape = {2000};
  const std::int64_t count = 60;
  int killed = 0;
  for (int round = 0; round < 10; ++round) {
    TempFolder folder;
    for (int again = 0; again < 2; ++again) {
      const int status = in_process(
          [&] {
            FolderSink sink(folder.path(), meta, small_shards(2));
            extract(sink, meta, members(0, count));
            sink.finish(0);
          },
          500 + round * 2700 + again * 1300);
      killed += WIFSIGNALED(status);
    }
    FolderSink sink(folder.path(), meta, small_shards(2));
    extract(sink, meta, members(0, count));
    CHECK(sink.finish(0).records == count);
    CHECK(gives(folder.path(), meta, members(0, count)));
    for (const std::string &name : names_in(folder.path()))
      CHECK_MESSAGE((name == ".lock" || name[0] != '.'), name);
  }
  CHECK(killed > 0);
}

TEST_CASE("folder: only our own leftovers are cleaned") {
  TempFolder folder;
  folder.write("." + shard_name(3) + ".Ab12Zz", "half");
  folder.write(".index.safetensors.Ab12Zz", "half");
  folder.write(".notes.txt.Ab12Zz", "mine");
  folder.write("shard-x.safetensors", "mine");
  folder.write("shard-000001.safetensors.bak", "mine");
  FolderSink sink(folder.path(), values_meta());
  CHECK(names_in(folder.path()) == std::vector<std::string>{".lock", ".notes.txt.Ab12Zz",
                                                            "shard-000001.safetensors.bak",
                                                            "shard-x.safetensors"});
}

/// `work` writes shards of four rows, for which the disk has no space, in a process of its own; it ends with
/// _exit(1) or another number if something is wrong. None of them may be left.
template <class Work> void on_full_disk(const Work &work) {
  TempFolder folder;
  const int status = in_process([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    setrlimit(RLIMIT_FSIZE, &limit);
    ShardMeta meta = values_meta();
    meta.values[0].shape = {3000};
    FolderSink sink(folder.path(), meta, small_shards(4));
    work(sink, meta);
  });
  CHECK(status == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{".lock"});
}

TEST_CASE("folder: a full disk leaves no half shard, and the run cannot pretend to have finished") {
  on_full_disk([](FolderSink &sink, const ShardMeta &meta) {
    sink.append(make_rows(meta, 0, 4)); // written in the background
    const auto shards = static_cast<std::int64_t>(kShardsWritten);
    const auto others = [&] { sink.append(make_rows(meta, 4, 4 * shards)); };
    if (message_of<SystemError>(others).empty()) _exit(1);
    if (message_of([&] { sink.finish(0); }).empty()) _exit(2);
  });
}

TEST_CASE("folder: finish() does not overlook that the last shards could not be written") {
  on_full_disk([](FolderSink &sink, const ShardMeta &meta) {
    sink.append(make_rows(meta, 0, 4 * static_cast<std::int64_t>(kShardsWritten)));
    if (message_of<SystemError>([&] { sink.finish(0); }).empty()) _exit(1);
  });
}

TEST_CASE("folder: damage of a shard that is read ahead is reported in its turn") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 130), 130, small_shards(65));
  const std::string path = folder.path(shard_name(1));
  std::string bytes = cli::read_file(path, 1 << 24);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  FolderSource source(folder.path());
  CHECK(source.next().value().size() == 65);
  CHECK(message_of<FormatError>([&] { source.next(); }).find(shard_name(1)) != std::string::npos);
}

TEST_CASE("folder: an index that names rows that are others is noticed") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 8), 8);
  fs::copy_file(folder.path(shard_name(1)), folder.path(shard_name(0)), fs::copy_options::overwrite_existing);
  FolderSource source(folder.path());
  CHECK(message_of<FormatError>([&] { all_rows(source); }).find("is not the record") != std::string::npos);
}

TEST_CASE("folder: a shard that is vouched for is not verified again, but every reader verifies it") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 8), 8);
  const std::string path = folder.path(shard_name(0));
  std::string bytes = cli::read_file(path, 1 << 24);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  SinkOptions options = small_shards();
  options.trusted = [](const std::string &, std::int64_t number) { return number == 0; };
  run(folder.path(), values_meta(), members(0, 8), 0, options);
  FolderSource source(folder.path());
  CHECK_THROWS_AS(source.next(), FormatError);
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  run(folder.path(), values_meta(), members(0, 8), 4, options); // what is no shard is noticed all the same
}
