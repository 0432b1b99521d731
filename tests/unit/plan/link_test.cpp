#include "plan/link.h"

#include "cli/error.h"
#include "runtime/clock.h"
#include "support/files.h"

#include <doctest/doctest.h>

#include <csignal>
#include <sys/wait.h>

using namespace tl;
using namespace tl::test;

namespace {

/// The programs run with SIGPIPE ignored; so do these tests.
struct IgnoreSigpipe {
  IgnoreSigpipe() { std::signal(SIGPIPE, SIG_IGN); }
} ignore_sigpipe;

std::string script(const TempFolder &folder, const std::string &name, const std::string &text) {
  const std::string path = folder.write(name, "#!/bin/sh\n" + text + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

bool no_children() { return waitpid(-1, nullptr, WNOHANG) == -1; }

} // namespace

TEST_CASE("rates in bits and bytes, with and without a round trip") {
  const auto rate = [](const std::string &text) { return plan::parse_rate(text).value(); };
  CHECK(rate("100Mbit/s").bandwidth == doctest::Approx(12.5e6));
  CHECK(rate("100Mbit/s").round_trip == 0);
  CHECK(rate("100Mbps").bandwidth == doctest::Approx(12.5e6));
  CHECK(rate("12.5MB/s").bandwidth == doctest::Approx(12.5e6));
  CHECK(rate("800bit/s").bandwidth == doctest::Approx(100));
  CHECK(rate("64kB/s").bandwidth == doctest::Approx(64e3));
  CHECK(rate("1e3B/s").bandwidth == doctest::Approx(1000));
  CHECK(rate("2Tbit/s").bandwidth == doctest::Approx(2.5e11));
  CHECK(rate("1Gbit/s,5ms").round_trip == doctest::Approx(0.005));
  CHECK(rate("1Gbit/s,70us").round_trip == doctest::Approx(70e-6));
  CHECK(rate("1Gbit/s,0.25s").round_trip == doctest::Approx(0.25));
  for (const std::string text : {"ssh storage", "", "-", "Mbit/s", "link.json"})
    CHECK_FALSE(plan::parse_rate(text).has_value());
  for (const std::string text :
       {"100", "100Mbit", "100Mbit/s,", "100Mbit/s,5", "100Mbit/s,5ms,", "100 Mbit/s", "0Mbit/s",
        "1e999bit/s", "100Mbit/s,-5ms", "1mbit/s", "100Mbit/s 5ms", "1e30B/s"})
    CHECK_THROWS_AS(plan::parse_rate(text), UsageError);
}

TEST_CASE("a link comes from a profile") {
  const TempFolder folder;
  const std::string with = folder.write("with", R"({"format": "tl-profile", "version": 1,
    "link": {"bandwidth_bytes_per_s": 5e6, "round_trip_s": 0.002, "command": "ssh storage"}})");
  CHECK(plan::resolve_link(with).bandwidth == 5e6);
  CHECK(plan::resolve_link(with).command == "ssh storage");
  const std::string without = folder.write("without.json", R"({"format": "tl-profile", "version": 1})");
  CHECK_THROWS_WITH_AS(plan::resolve_link(without), doctest::Contains("has no link"), Error);
  CHECK_THROWS_AS(plan::resolve_link(folder.path("missing.json")), Error);
  CHECK_THROWS_AS(plan::resolve_link(""), UsageError);
  CHECK(plan::resolve_link("8Mbit/s").bandwidth == doctest::Approx(1e6));
}

TEST_CASE("a link is measured through a command") {
  const plan::LinkProfile link = plan::measure_link("env", 0.2);
  CHECK(link.command == "env");
  CHECK(link.bandwidth > 1e6);
  CHECK(link.round_trip > 0);
  CHECK(link.round_trip < 0.5);
  CHECK(no_children());
}

TEST_CASE("a measured round trip and rate are those of the link") {
  const TempFolder folder;
  const std::string late =
      script(folder, "late", "while IFS= read -r l; do sleep 0.02; echo \"$l\"; done | \"$@\"");
  const plan::LinkProfile slow = plan::measure_link(late, 0.1);
  CHECK(slow.round_trip > 0.019);
  CHECK(slow.round_trip < 0.5);

  // A login message first; then at most 64 KiB each 10 ms.
  const std::string narrow = script(folder, "narrow",
                                    "echo Welcome; \"$@\" | "
                                    "while dd bs=65536 count=1 2>/dev/null; do sleep 0.01; done");
  const plan::LinkProfile rate = plan::measure_link(narrow, 0.5);
  CHECK(rate.bandwidth < 65536 / 0.01);
  CHECK(rate.bandwidth > 1e5);
}

TEST_CASE("a command that is no way to the storage side is an error, soon") {
  const Stopwatch watch;
  for (const std::string command :
       {"false", "true", "no-such-command-anywhere", "echo hello", "yes", "sh -c 'exit 3' #"})
    CHECK_THROWS_WITH_AS(plan::measure_link(command, 0.1), doctest::Contains("link '"), Error);
  CHECK(watch.seconds() < 30);
  CHECK(no_children());
}
