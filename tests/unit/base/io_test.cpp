// Outputs: whole or not at all, and never in the place of a device.
#include "cli/error.h"
#include "cli/io.h"
#include "support/files.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tl;

TEST_CASE("a file appears on commit, and leaves nothing behind without") {
  const test::TempFolder folder;
  {
    cli::AtomicFile file(folder.path("deep/out"));
    file.write("text");
    CHECK(access(folder.path("deep/out").c_str(), F_OK) != 0);
  }
  CHECK(std::filesystem::is_empty(folder.path("deep")));
  cli::AtomicFile file(folder.path("deep/out"));
  file.write("text");
  file.commit();
  CHECK(cli::read_file(folder.path("deep/out"), 100) == "text");
}

TEST_CASE("a temporary file tells what it would have become, and other files do not") {
  const test::TempFolder folder;
  for (const char *name : {"a", "model.pt", ".model.pt.unproved", "x.123456"}) {
    const cli::AtomicFile file(folder.path(name));
    CHECK(cli::target_of_temporary(std::filesystem::path(file.temporary()).filename().string()) == name);
  }
  for (const char *name :
       {"", ".", "a", "model.pt.abcdef", ".abcdef", "..abcdef", ".a.abcde", ".model.pt.unproved"})
    CHECK(cli::target_of_temporary(name).empty());
}

TEST_CASE("temporaries are removed whose target is asked for") {
  const test::TempFolder folder;
  for (const char *name : {".ours.abcdef", ".other.abcdef", "ours", ".ours"})
    cli::write_output(folder.path(name), "text");
  cli::remove_temporaries(folder.path(), [](const std::string &target) { return target == "ours"; });
  CHECK(access(folder.path(".ours.abcdef").c_str(), F_OK) != 0);
  for (const char *name : {".other.abcdef", "ours", ".ours"})
    CHECK(access(folder.path(name).c_str(), F_OK) == 0);
  CHECK_NOTHROW(cli::remove_temporaries(folder.path("absent"), [](const std::string &) { return true; }));
}

TEST_CASE("files that threads create at once have the rights that the umask leaves") {
  const test::TempFolder folder;
  const mode_t before = umask(027);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        cli::write_output(folder.path(std::to_string(t) + "-" + std::to_string(i)), "text");
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(umask(before) == 027);
  for (const auto &file : std::filesystem::directory_iterator(folder.path()))
    CHECK(file.status().permissions() == std::filesystem::perms(0640));
}

TEST_CASE("a socket takes all that is written, however slowly its reader takes it") {
  int ends[2] = {};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::string sent(3 << 20, '\0'), received(sent.size() + 1, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * i >> 7);
  std::thread reader([&] {
    const cli::Descriptor from(ends[0]);
    received.resize(cli::read_full(from.get(), received.data(), received.size(), "socket"));
  });
  {
    const cli::Descriptor to(ends[1]);
    cli::write_full(to.get(), sent.data(), sent.size(), "socket");
  }
  reader.join();
  CHECK(received == sent);
}

TEST_CASE("a socket whose reader has gone is a closed pipe") {
  int ends[2] = {};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const cli::Descriptor to(ends[1]);
  cli::Descriptor(ends[0]).close("socket");
  CHECK_THROWS_AS(cli::write_full(to.get(), "text", 4, "socket"), ClosedPipe);
}

TEST_CASE("a pipe or a device is written to, not replaced") {
  const test::TempFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const cli::Descriptor reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  cli::write_output(pipe, "text");
  char buffer[8] = {};
  CHECK(read(reader.get(), buffer, sizeof buffer) == 4);
  CHECK(std::string(buffer) == "text");
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK_THROWS_AS(cli::write_output("/dev/full", "text"), SystemError);
  CHECK(std::filesystem::is_character_file("/dev/full"));
}
