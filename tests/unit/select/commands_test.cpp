// The commands of a plan, as shells and make read them.
#include "select/commands.h"

#include "cli/io.h"
#include "support/files.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace tl;
using namespace tl::select;
using namespace tl::test;

TEST_CASE("commands: a quoted word is one word of a shell, whatever its bytes") {
  for (const std::string word : {"plain", "", "a b", "it's", "$HOME `id` $(id)", "a\nb", "\"", "\\", "*?[a]",
                                 "-n", "\xff\xfe", "#;&|<>"}) {
    TempFolder folder;
    const std::string output = folder.path("word");
    const std::string command = "printf '%s' " + quoted(word) + " > " + quoted(output);
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(cli::read_file(output, 1000) == word);
  }
}

TEST_CASE("commands: a part each, a group each, and nothing to extract where nothing is kept") {
  std::vector<Candidate> candidates(3);
  for (std::size_t c = 0; c < 3; ++c) candidates[c].id = std::string(16, static_cast<char>('0' + c));
  ReusePlan plan;
  plan.groups.resize(2);
  plan.groups[0].candidates = {0, 2};
  plan.groups[1].candidates = {1};
  Call call{"tl-select", "e x.json", "photos/", "runs/", 2, true, true};
  Commands commands = commands_of(plan, candidates, call, 3);
  CHECK(commands.extract.empty());
  REQUIRE(commands.train.size() == 2);
  CHECK(commands.train[0] == "'tl-select' 'e x.json' 'photos/' -o 'runs/' --quiet --threads 2 --keep-going "
                             "--candidates 0000000000000000,2222222222222222");
  plan.passes.resize(1);
  call.train = false;
  commands = commands_of(plan, candidates, call, 3);
  CHECK(commands.train.empty());
  REQUIRE(commands.extract.size() == 3);
  CHECK(commands.extract[2].find("--partition 3/3") != std::string::npos);
}

TEST_CASE("commands: the files run each job once, in the order of their needs, and replace earlier ones") {
  TempFolder folder;
  const std::string log = quoted(folder.path("log"));
  Commands many, few;
  for (int i = 0; i < 3; ++i) many.extract.push_back("echo extract >> " + log);
  for (int i = 0; i < 4; ++i) many.train.push_back("echo train >> " + log);
  few.train = {"echo last >> " + log, "(exit 3)"}; // 3: records were skipped
  write_jobs(folder.path(), many, "");
  const std::string make = "make -s -j 3 -C " + quoted(folder.path("jobs")) + " 2> /dev/null";
  REQUIRE(std::system(make.c_str()) == 0);
  REQUIRE(std::system(make.c_str()) == 0);
  CHECK(cli::read_file(folder.path("log"), 1000) ==
        "extract\nextract\nextract\ntrain\ntrain\ntrain\ntrain\n");
  write_jobs(folder.path(), few, "");
  REQUIRE(std::system(make.c_str()) == 0);
  CHECK(cli::read_file(folder.path("log"), 1000) ==
        "extract\nextract\nextract\ntrain\ntrain\ntrain\ntrain\nlast\n");
  few.train = {"(exit 1)"};
  write_jobs(folder.path(), few, "");
  CHECK(std::system(make.c_str()) != 0);
}
