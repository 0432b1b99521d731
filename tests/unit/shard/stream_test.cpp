#include "shard/stream.h"

#include "shard/stream_format.h"
#include "support/clock.h"
#include "support/shards.h"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace {

struct Pipe {
  cli::Descriptor in, out;
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) throw SystemError("pipe", errno);
    in = cli::Descriptor(fds[0]);
    out = cli::Descriptor(fds[1]);
  }
};

struct Received {
  std::vector<Shard> shards;
  std::int64_t records = 0, skipped = 0;
  std::optional<std::int64_t> expected;
};

Received receive(StreamSource &source) {
  Received all;
  all.expected = source.expected();
  while (std::optional<Shard> shard = source.next()) {
    all.records += shard->size();
    all.shards.push_back(std::move(*shard));
  }
  CHECK_FALSE(source.next()); // the end stays the end
  all.skipped = source.skipped();
  return all;
}

/// Reads a stream that `feed` writes from another thread.
Received through_pipe(const std::function<void(int)> &feed) {
  Pipe pipe;
  std::thread sender([&] {
    feed(pipe.out.get());
    pipe.out = cli::Descriptor();
  });
  try {
    StreamSource source(std::move(pipe.in), "pipe");
    Received all = receive(source);
    sender.join();
    return all;
  } catch (...) {
    pipe.in = cli::Descriptor();
    sender.join();
    throw;
  }
}

/// A file without a name, in memory: thousands of damaged streams need no disk.
cli::Descriptor memory_file(const std::string &bytes = "") {
  cli::Descriptor file(memfd_create("stream", MFD_CLOEXEC));
  cli::write_full(file.get(), bytes.data(), bytes.size(), "memory");
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

/// All of a stream's bytes: `batches` batches of 3 records, of which one frame each.
std::string stream_bytes(const ShardMeta &meta, int batches, std::int64_t skipped = 0) {
  const cli::Descriptor file = memory_file();
  StreamSink sink(file.get(), "file", meta, 3 * batches);
  for (int i = 0; i < batches; ++i) sink.append(make_rows(meta, 3 * i, 3));
  sink.finish(skipped);
  std::string bytes(static_cast<std::size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  lseek(file.get(), 0, SEEK_SET);
  cli::read_full(file.get(), bytes.data(), bytes.size(), "memory");
  return bytes;
}

Received receive_bytes(const std::string &bytes) {
  StreamSource source(memory_file(bytes), "pipe");
  return receive(source);
}

void write_all(int fd, const std::string &bytes) {
  try {
    cli::write_full(fd, bytes.data(), bytes.size(), "pipe");
  } catch (const ClosedPipe &) { // the reader has seen enough
  }
}

/// Features so large that each batch of rows is a frame.
ShardMeta large_meta() {
  ShardMeta meta = values_meta();
  meta.values[0].shape = {100, 300};
  return meta;
}

struct NoSigpipe {
  NoSigpipe() { std::signal(SIGPIPE, SIG_IGN); }
} const no_sigpipe;

} // namespace

TEST_CASE("stream: records arrive in order with their counts, whatever the payload and the number") {
  for (const ShardMeta &meta : {values_meta(), files_meta(), large_meta()})
    for (const int batches : {0, 1, 4}) {
      const Received all = receive_bytes(stream_bytes(meta, batches, 5));
      CHECK(all.records == 3 * batches);
      CHECK(all.skipped == 5);
      CHECK(all.expected == 3 * batches);
      std::int64_t next = 0;
      for (const Shard &shard : all.shards) {
        CHECK(same_rows(shard, make_rows(meta, next, shard.size())));
        next += shard.size();
      }
    }
}

TEST_CASE("stream: tiny rows share a frame, large ones leave at once") {
  CHECK(receive_bytes(stream_bytes(values_meta(), 100)).shards.size() < 20); // one, unless the machine pauses
  CHECK(receive_bytes(stream_bytes(large_meta(), 3)).shards.size() == 3);
}

TEST_CASE("stream: a slow pipe that gives a byte at a time is not the end") {
  const std::string bytes = stream_bytes(values_meta(), 2, 1);
  const Received all = through_pipe([&](int fd) {
    for (const char byte : bytes) write_all(fd, std::string(1, byte));
  });
  CHECK(all.records == 6);
  const Received paused = through_pipe([&](int fd) {
    write_all(fd, bytes.substr(0, 3));
    usleep(50000);
    write_all(fd, bytes.substr(3));
  });
  CHECK(paused.records == 6);
}

TEST_CASE("stream: cut off anywhere is an error that counts what arrived") {
  const std::string bytes = stream_bytes(values_meta(), 2);
  std::size_t silent = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size)
    silent += message_of<FormatError>([&] { receive_bytes(bytes.substr(0, size)); }).empty();
  CHECK(silent == 0);
  CHECK(message_of([&] { receive_bytes(""); }).find("wrote nothing") != std::string::npos);
  CHECK(message_of([&] { receive_bytes(bytes.substr(0, bytes.size() - 1)); }) ==
        "pipe: the stream ended after 6 records without its end marker: the sender failed or was cut off");

  // At the boundary after each frame, too.
  const std::string large = stream_bytes(large_meta(), 3);
  const std::size_t second = large.find("SHRD", large.find("SHRD") + 4);
  const std::string message = message_of<FormatError>([&] { receive_bytes(large.substr(0, second)); });
  CHECK(message.find("after 3 records without its end marker") != std::string::npos);
}

TEST_CASE("stream: every flipped bit is noticed") {
  const std::string good = stream_bytes(files_meta(), 1);
  std::size_t silent = 0;
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int mask : {0x01, 0x10, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ mask);
      silent += message_of<FormatError>([&] { receive_bytes(bad); }).empty();
    }
  CHECK(silent == 0);
}

TEST_CASE("stream: lost, repeated and swapped frames, and whatever follows the end, are noticed") {
  const std::string bytes = stream_bytes(large_meta(), 3);
  std::vector<std::size_t> at;
  for (std::size_t i = bytes.find("SHRD"); i != std::string::npos; i = bytes.find("SHRD", i + 4))
    at.push_back(i);
  REQUIRE(at.size() == 3);
  const std::size_t done = bytes.rfind("DONE");
  const std::string start = bytes.substr(0, at[0]), end = bytes.substr(done);
  const std::string a = bytes.substr(at[0], at[1] - at[0]), b = bytes.substr(at[1], at[2] - at[1]);
  const std::string c = bytes.substr(at[2], done - at[2]);
  REQUIRE(receive_bytes(start + a + b + c + end).records == 9);
  for (const std::string &bad :
       {start + a + b + end, start + b + c + end, start + a + c + end, start + end, start + b + a + c + end,
        start + a + a + b + c + end, start + a + b + c + c + end, a + b + c + end,
        start + start.substr(12) + a + b + c + end, bytes + "\n", bytes + bytes})
    CHECK_THROWS_AS(receive_bytes(bad), FormatError);
  CHECK(message_of([&] { receive_bytes(bytes + bytes); }).find("one stream only") != std::string::npos);
  // A frame of another extraction.
  ShardMeta other = large_meta();
  other.plan = hash_text("other");
  const std::string strange = stream_bytes(other, 1);
  const std::size_t from = strange.find("SHRD");
  CHECK(message_of([&] { receive_bytes(start + strange.substr(from)); }).find("another extraction") !=
        std::string::npos);
}

TEST_CASE("stream: a frame that claims to be huge costs no more memory than arrives") {
  std::string bytes = stream_bytes(values_meta(), 1);
  const std::size_t at = bytes.find("SHRD") + 4;
  bytes.replace(at, 8, std::string("\0\0\0\0\x02\0\0\0", 8)); // 8 GiB
  const std::clock_t start = std::clock();                    // not wall time: the machine may be busy
  CHECK(message_of<FormatError>([&] { receive_bytes(bytes); }).find("without its end marker") !=
        std::string::npos);
  CHECK(cpu_seconds(start) < 2);
  bytes.replace(at, 8, std::string("\0\0\0\0\0\0\0\x40", 8));
  CHECK(message_of<FormatError>([&] { receive_bytes(bytes); }).find("impossible length") !=
        std::string::npos);
}

TEST_CASE("stream: a frame larger than one step of memory arrives whole") {
  ShardMeta meta = values_meta();
  meta.values = {{"v", hash_text("v"), DType::u8, {70 << 20}}};
  const Shard rows = make_rows(meta, 0, 1);
  const Received all = through_pipe([&](int fd) {
    StreamSink sink(fd, "pipe", meta);
    sink.append(rows);
    sink.finish(0);
  });
  REQUIRE(all.shards.size() == 1);
  CHECK(same_rows(all.shards[0], rows));
  CHECK_FALSE(all.expected);
}

TEST_CASE("stream: what is no stream is told by what it looks like") {
  const std::string stream = stream_bytes(values_meta(), 1);
  const auto message = [](const std::string &bytes) {
    return message_of<FormatError>([&] { receive_bytes(bytes); });
  };
  CHECK(message("Welcome to storage-7!\nLast login: Monday\n" + stream)
            .find("looks like text: 'Welcome to storage-7!'") != std::string::npos);
  CHECK(message("hi\n").find("looks like text: 'hi'") != std::string::npos);
  CHECK(message("Gr\xc3\xbc\xc3\x9f Gott, welcome on the machine, which has a banner that is very, very "
                "long, and goes on\n")
            .find("looks like text: 'Gr") != std::string::npos);
  CHECK(message("{\"format\": \"tl-plan\"}").find("looks like JSON") != std::string::npos);
  CHECK(message(shard_bytes(make_rows(values_meta(), 0, 1))).find("safetensors") != std::string::npos);
  CHECK(message("\x1f\x8b\x08\0abcdefgh").find("1f 8b 08") != std::string::npos);
  CHECK(message(std::string("\x89PNG\r\n\x1a\n", 8)).find("89 50 4e 47") != std::string::npos);
  std::string newer = stream;
  newer[8] = 2;
  CHECK(message_of<NewerVersion>([&] { receive_bytes(newer); }).find("newer") != std::string::npos);
  // The banner is quoted at once although its sender goes on living.
  Pipe pipe;
  write_all(pipe.out.get(), "Password expired\n");
  CHECK(message_of([&] { StreamSource(std::move(pipe.in), "pipe"); }).find("Password expired") !=
        std::string::npos);
}

TEST_CASE("stream: the receiver reports the sender's reason") {
  const auto failing = [](int batches) {
    return message_of<Error>([&] {
      through_pipe([&](int fd) {
        StreamSink sink(fd, "pipe", large_meta());
        for (int i = 0; i < batches; ++i) sink.append(make_rows(large_meta(), 3 * i, 3));
        sink.fail("disk on \xff fire");
      });
    });
  };
  CHECK(failing(0) == "pipe: the sender failed after 0 records: disk on \xff fire");
  CHECK(failing(2) == "pipe: the sender failed after 6 records: disk on \xff fire");
}

TEST_CASE("stream: a full disk and a closed reader stop the sender") {
  const cli::Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  CHECK(message_of<SystemError>([&] {
          StreamSink(full.get(), "stdout", values_meta());
        }).find("No space left") != std::string::npos);
  Pipe pipe;
  StreamSink sink(pipe.out.get(), "stdout", large_meta());
  pipe.in = cli::Descriptor();
  CHECK_THROWS_AS(sink.append(make_rows(large_meta(), 0, 3)), ClosedPipe);
  sink.fail("must neither throw nor write");
}

TEST_CASE("stream: rows that do not fit are refused before they are sent") {
  Pipe pipe;
  StreamSink sink(pipe.out.get(), "stdout", values_meta());
  CHECK_THROWS_AS(sink.append(make_rows(large_meta(), 0, 1)), Error);
  CHECK_THROWS_AS(sink.keep({}), Error);
  CHECK_FALSE(sink.has(record_hash(0)));
}

TEST_CASE("stream: the sender's report and the pace of what came after the first shard arrive with it") {
  const SenderReport report{2.5, {{"compute", 2, 0.8}, {"write", 0.5, 0.2}}};
  for (const int frames : {1, 2, 5}) {
    cli::Descriptor file = memory_file();
    StreamSink sink(file.get(), "memory", large_meta());
    for (int i = 0; i < frames; ++i) sink.append(make_rows(large_meta(), 3 * i, 3));
    sink.tell(report);
    sink.finish(0);
    lseek(file.get(), 0, SEEK_SET);
    StreamSource source(std::move(file), "memory");
    CHECK_FALSE(source.delivery());
    const Received all = receive(source);
    REQUIRE(all.shards.size() == static_cast<std::size_t>(frames));
    const std::optional<Delivery> delivery = source.delivery();
    REQUIRE(delivery);
    CHECK(delivery->records == all.records - all.shards[0].size());
    CHECK((delivery->seconds > 0) == (frames > 1));
    CHECK(to_json(delivery->sender) == to_json(report));
    CHECK(delivery->sender.busy("write") == 0.2);
    CHECK(delivery->sender.busy("encode") == 0);
  }
}

TEST_CASE("stream: a sender's report that nobody can mean is refused") {
  const json::Value good = to_json(SenderReport{1, {{"compute", 1, 0.5}}});
  CHECK(sender_from_json(good, "end").stages.size() == 1);
  const auto refused = [](json::Value value) {
    CHECK_THROWS_AS(sender_from_json(value, "end"), FormatError);
  };
  for (const json::Value &bad :
       {json::Value(-1), json::Value("1"), json::Value(nullptr), json::Value(1e13)}) {
    json::Value changed = good;
    changed["seconds"] = bad;
    refused(changed);
    for (const char *key : {"seconds", "busy"}) {
      changed = good;
      changed["stages"][0][key] = bad;
      refused(changed);
    }
  }
  refused(json::Value::array());
  refused({{"seconds", 1}});
  refused({{"seconds", 1}, {"stages", {{"compute", 1}}}});
  refused({{"seconds", 1}, {"stages", {{{"name", std::string(65, 'x')}, {"seconds", 1}, {"busy", 1}}}}});
  refused({{"seconds", 1}, {"stages", json::Value::array_t(33, good["stages"][0])}});
}
