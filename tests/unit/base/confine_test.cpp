// A confined process opens nothing outside of its folder, whatever leads there.
#include "cli/confine.h"
#include "cli/error.h"
#include "cli/io.h"
#include "support/files.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <functional>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tl;
namespace fs = std::filesystem;

namespace {

/// A folder `in` beside a file `out/secret`, with links of every kind from one to the other.
struct Place {
  test::TempFolder folder;
  std::string root = folder.path("in");
  std::string inside = folder.write("in/deep/file", "data");
  std::string outside = folder.write("out/secret", "secret");

  Place() {
    folder.write("in-beside/file", "secret");
    fs::create_directories(folder.path("leases"));
    fs::create_symlink(outside, root + "/link");
    fs::create_symlink("../out/secret", root + "/relative");
    fs::create_directory_symlink("../out", root + "/folder");
    fs::create_symlink("deep/file", root + "/good");
    fs::create_symlink(inside, root + "/absolute");
    fs::create_symlink("nowhere", root + "/dangling");
  }
};

/// In a process of its own, since there is no way back.
bool in_child(const std::function<bool()> &body) {
  const pid_t pid = fork();
  if (pid == 0) {
    bool right = false;
    try {
      right = body();
    } catch (...) {
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool opens(const std::string &path, int flags = O_RDONLY) {
  return cli::Descriptor(open(path.c_str(), flags | O_CLOEXEC, 0600)).valid();
}

bool has_landlock() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

} // namespace

TEST_CASE("paths are resolved, and must stay below the root") {
  const Place place;
  const std::string real = fs::canonical(place.inside).string();
  for (const char *path : {"deep/file", "good", "absolute", "./deep/../deep/file", "deep//file"})
    CHECK(cli::path_below(place.root, path) == real);
  CHECK(cli::path_below(place.root, place.inside) == real);
  CHECK(cli::path_below(place.root + "/", ".") == fs::canonical(place.root).string());
  for (const std::string &path :
       {std::string("../out/secret"), std::string("link"), std::string("relative"),
        std::string("folder/secret"), std::string("folder"), std::string("deep/../../out"), place.outside,
        place.root + "/../in-beside/file", place.root + "-beside/file", std::string("/"), std::string(".."),
        std::string("missing"), std::string("dangling"), std::string("s3://bucket/key")}) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(cli::path_below(place.root, path), doctest::Contains("not below"), Error);
  }
  CHECK_THROWS_AS(cli::path_below(place.folder.path("missing"), "x"), SystemError);
}

TEST_CASE("a confined process reads what is inside only") {
  const Place place;
  CHECK(cli::may_read(place.outside));
  CHECK(in_child([&] {
    cli::confine(place.root, place.folder.path("leases"));
    for (const std::string &path : {place.inside, place.root + "/good", place.root + "/absolute"})
      if (!cli::may_read(path) || cli::read_file(path, 100) != "data") return false;
    for (const std::string &path : {place.outside, place.root + "/link", place.root + "/relative",
                                    place.root + "/folder/secret", place.root + "-beside/file"}) {
      if (cli::may_read(path)) return false;
      try {
        cli::open_input(path);
        return false;
      } catch (const Error &) {
      }
    }
    return true;
  }));
}

TEST_CASE("where the kernel has Landlock, no way leads out") {
  if (!has_landlock()) return;
  const Place place;
  CHECK(in_child([&] {
    cli::confine(place.root, place.folder.path("leases"));
    return opens(place.inside) && opens(place.root + "/good") && !opens(place.outside) &&
           !opens(place.root + "/link") && !opens("/etc/passwd") && opens("/proc/self/statm") &&
           !opens(place.inside, O_RDWR) && !opens(place.root + "/new", O_WRONLY | O_CREAT) &&
           !opens(place.folder.path("new"), O_WRONLY | O_CREAT) && unlink(place.inside.c_str()) != 0 &&
           mkdir((place.root + "/new").c_str(), 0700) != 0 &&
           opens(place.folder.path("leases/new"), O_RDWR | O_CREAT) &&
           unlink(place.folder.path("leases/new").c_str()) == 0;
  }));
}
