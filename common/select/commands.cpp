#include "select/commands.h"

#include "cli/error.h"
#include "cli/io.h"
#include "shard/partition.h"

#include <algorithm>
#include <filesystem>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kArray = 1000; // tasks; Slurm's own limit is 1001

/// A script that works wherever it is started, and for which skipped records are no failure: they are in the
/// leaderboard.
std::string script(const std::string &command) {
  return "#!/bin/sh\n# A job of tl-select; it may be run at any time, by hand, too.\ncd " +
         quoted(fs::current_path().string()) + " || exit 1\n" + command + " || [ $? = 3 ]\n";
}

std::string name_of(const char *kind, std::size_t number) { return kind + ("-" + std::to_string(number)); }

std::string makefile(const Commands &commands) {
  std::string extracted, trained, rules;
  const auto rule = [&](const std::string &name, const std::string &needs) {
    rules += name + ".done:" + needs + "\n\t@sh " + name + ".sh\n\t@touch $@\n\t@echo '" + name + " of " +
             std::to_string(commands.extract.size() + commands.train.size()) + " jobs is done' >&2\n";
    return " " + name + ".done";
  };
  for (std::size_t i = 1; i <= commands.extract.size(); ++i) extracted += rule(name_of("extract", i), "");
  for (std::size_t i = 1; i <= commands.train.size(); ++i)
    trained += rule(name_of("train", i), " $(EXTRACTED)");
  return "# Written by tl-select. From any folder: make -C RUNS/jobs -j N\nEXTRACTED =" + extracted +
         "\n.PHONY: all\nall: $(EXTRACTED)" + trained + "\n" + rules;
}

/// An array of so many scripts; a task takes every kArray-th.
std::string array_job(const char *kind, std::size_t count, const std::string &options) {
  const std::string tasks = std::to_string(std::min(count, kArray));
  return "sbatch --parsable --job-name=tl-" + std::string(kind) + " --array=1-" + tasks +
         " --output=" + kind + "-%a.log " + options + " --wrap='i=$SLURM_ARRAY_TASK_ID; while [ -e " + kind +
         "-$i.sh ]; do sh " + kind + "-$i.sh && touch " + kind + "-$i.done || exit 1; i=$((i + " +
         std::to_string(kArray) + ")); done'";
}

std::string submission(const Commands &commands, const std::string &sbatch) {
  std::string text = "#!/bin/sh\n# Written by tl-select: hands the jobs to Slurm and waits for them.\n"
                     "set -e\ncd \"$(dirname \"$0\")\"\n";
  const bool first = !commands.extract.empty(), second = !commands.train.empty();
  std::string after = "--wait";
  if (first && second) {
    text += "extraction=$(" + array_job("extract", commands.extract.size(), sbatch) + ")\n";
    after += " --dependency=afterok:${extraction%%;*} --kill-on-invalid-dep=yes";
  } else if (first) {
    text += array_job("extract", commands.extract.size(), "--wait " + sbatch) + " >&2\n";
  }
  if (second) text += array_job("train", commands.train.size(), after + " " + sbatch) + " >&2\n";
  return text;
}

void remove_earlier(const fs::path &folder) {
  cli::remove_temporaries(folder.string(), [](const std::string &) { return true; });
  std::error_code failed;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("extract-", 0) == 0 || name.rfind("train-", 0) == 0) fs::remove(entry.path(), failed);
  }
}

} // namespace

std::string quoted(const std::string &word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

Commands commands_of(const ReusePlan &plan, const std::vector<Candidate> &candidates, const Call &call,
                     std::int64_t parts) {
  std::string common = quoted(call.program) + " " + quoted(call.experiment) + " " + quoted(call.dataset) +
                       " -o " + quoted(call.runs) + " --quiet";
  if (call.threads > 0) common += " --threads " + std::to_string(call.threads);
  if (call.keep_going) common += " --keep-going";
  Commands commands;
  for (shard::Partition part{1, parts}; !plan.passes.empty() && part.index <= parts; ++part.index)
    commands.extract.push_back(common + " --partition " + part.text());
  for (const Group &group : plan.groups) {
    if (!call.train) break;
    std::string ids;
    for (const std::size_t c : group.candidates) ids += (ids.empty() ? "" : ",") + candidates[c].id;
    commands.train.push_back(common + " --candidates " + ids);
  }
  return commands;
}

void write_jobs(const std::string &runs, const Commands &commands, const std::string &sbatch) {
  const fs::path folder = fs::path(runs) / "jobs";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw SystemError("create folder " + folder.string(), failed.value());
  remove_earlier(folder);
  const auto write = [&](const std::string &name, const std::string &text) {
    cli::write_output((folder / name).string(), text);
  };
  for (std::size_t i = 0; i < commands.extract.size(); ++i)
    write(name_of("extract", i + 1) + ".sh", script(commands.extract[i]));
  for (std::size_t i = 0; i < commands.train.size(); ++i)
    write(name_of("train", i + 1) + ".sh", script(commands.train[i]));
  write("Makefile", makefile(commands));
  write("submit.sh", submission(commands, sbatch));
}

} // namespace tl::select
