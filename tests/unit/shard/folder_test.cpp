#include "shard/folder.h"

#include "cli/io.h"
#include "support/files.h"
#include "support/shards.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace {

double cpu_seconds(std::clock_t since) { return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC; }

namespace fs = std::filesystem;

SinkOptions small_shards(std::int64_t rows = 4) {
  SinkOptions options;
  options.rows_per_shard = rows;
  return options;
}

Member member(std::int64_t number) {
  return {record_hash(number), number % 4 - 1, number, record_id(number)};
}

/// What an extraction does: each record in order, computed only if it is new. Returns how many were.
std::int64_t extract(ShardSink &sink, const ShardMeta &meta, const std::vector<Member> &members) {
  std::int64_t computed = 0;
  for (const Member &wanted : members) {
    if (sink.has(wanted.record)) {
      sink.keep(wanted);
      continue;
    }
    std::int64_t number = 0;
    while (record_hash(number) != wanted.record) ++number;
    Shard row = make_rows(meta, number, 1);
    row.meta = {};
    row.labels[0] = wanted.label;
    row.rows[0] = wanted.row;
    row.ids[0] = wanted.id;
    sink.append(row);
    ++computed;
  }
  return computed;
}

std::vector<Member> members(std::int64_t first, std::int64_t count) {
  std::vector<Member> all;
  for (std::int64_t i = first; i < first + count; ++i) all.push_back(member(i));
  return all;
}

SinkReport run(const std::string &folder, const ShardMeta &meta, const std::vector<Member> &all,
               std::int64_t expect_computed, const SinkOptions &options = small_shards()) {
  FolderSink sink(folder, meta, options);
  CHECK(extract(sink, meta, all) == expect_computed);
  return sink.finish(0);
}

/// All rows of a source, one shard each, in order.
std::vector<Shard> all_rows(ShardSource &source) {
  std::vector<Shard> rows;
  while (const std::optional<Shard> shard = source.next())
    for (std::int64_t i = 0; i < shard->size(); ++i) rows.push_back(slice(*shard, i, i + 1));
  return rows;
}

/// True if the folder gives exactly these members, in this order, each with its own features.
bool gives(const std::string &folder, const ShardMeta &meta, const std::vector<Member> &want) {
  FolderSource source(folder);
  const std::vector<Shard> rows = all_rows(source);
  bool same = rows.size() == want.size() && source.expected() == static_cast<std::int64_t>(want.size());
  for (std::size_t i = 0; same && i < want.size(); ++i) {
    std::int64_t number = 0;
    while (record_hash(number) != want[i].record) ++number;
    Shard right = make_rows(meta, number, 1);
    right.labels[0] = want[i].label;
    right.rows[0] = want[i].row;
    right.ids[0] = want[i].id;
    same = same_rows(rows[i], right);
  }
  return same;
}

std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string shard_name(int number) { return "shard-00000" + std::to_string(number) + ".safetensors"; }

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

TEST_CASE("folder: a full disk leaves no half shard, and the run cannot pretend to have finished") {
  TempFolder folder;
  const int status = in_process([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    setrlimit(RLIMIT_FSIZE, &limit);
    ShardMeta meta = values_meta();
    meta.values[0].shape = {3000};
    FolderSink sink(folder.path(), meta, small_shards(4));
    sink.append(make_rows(meta, 0, 1));
    if (message_of<SystemError>([&] { sink.append(make_rows(meta, 1, 3)); }).empty()) _exit(1);
    if (message_of([&] { sink.finish(0); }).empty()) _exit(2);
  });
  CHECK(status == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{".lock"});
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

TEST_CASE("folder: an index that names rows that are others is noticed") {
  TempFolder folder;
  run(folder.path(), values_meta(), members(0, 8), 8);
  fs::copy_file(folder.path(shard_name(1)), folder.path(shard_name(0)), fs::copy_options::overwrite_existing);
  FolderSource source(folder.path());
  CHECK(message_of<FormatError>([&] { all_rows(source); }).find("is not the record") != std::string::npos);
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
