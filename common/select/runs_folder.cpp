#include "select/runs_folder.h"

#include "cli/error.h"
#include "cli/io.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

std::string made(const std::string &path, const std::string &dataset) {
  std::error_code failed;
  if (fs::is_directory(dataset, failed)) {
    const fs::path inside =
        fs::weakly_canonical(path, failed).lexically_relative(fs::canonical(dataset, failed));
    if (!failed && !inside.empty() && *inside.begin() != "..")
      throw UsageError(path + ": is inside the data set " + dataset + "; choose a place outside");
  }
  failed.clear();
  fs::create_directories(path, failed);
  if (failed) throw SystemError("create folder " + path, failed.value());
  return path;
}

constexpr std::string_view kFiles[] = {"result.json", "weights.safetensors", "state.safetensors",
                                       "costs.json",  "reuse-plan.json",     "leaderboard.json",
                                       "model.pt",    "trial.json"};

void remove_leftovers(const fs::path &folder) {
  cli::remove_temporaries(folder.string(), [](const std::string &target) {
    return std::find(std::begin(kFiles), std::end(kFiles), target) != std::end(kFiles);
  });
}

} // namespace

RunsFolder::RunsFolder(const std::string &path, const std::string &dataset)
    : path_(made(path, dataset)), lock_(path_) {
  lock_.started();
  remove_leftovers(path_);
  remove_leftovers(file("best"));
  std::error_code failed;
  for (fs::directory_iterator entries(file("trials"), failed), end; !failed && entries != end;
       entries.increment(failed))
    remove_leftovers(entries->path());
}

std::string RunsFolder::file(const std::string &name) const { return (fs::path(path_) / name).string(); }

void RunsFolder::write(const std::string &name, const std::string &schema,
                       const json::Value &document) const {
  json::validate(document, schema, file(name));
  cli::write_output(file(name), json::pretty(document));
}

std::int64_t RunsFolder::expected_records() const {
  const std::string plan = file("reuse-plan.json");
  std::error_code ignored;
  if (!fs::is_regular_file(plan, ignored)) return 0;
  try {
    return json::load(plan, "reuse").at("expected_records").get<std::int64_t>();
  } catch (const FormatError &) { // of older tools, or damaged
    return 0;
  }
}

bool RunsFolder::best_is(const Trial &trial) const {
  std::error_code ignored;
  const std::string marker = file("best/trial.json");
  if (!fs::is_regular_file(best_model(), ignored) || !fs::is_regular_file(marker, ignored)) return false;
  try {
    const Trial there = trial_from_json(json::load(marker, "trial"), marker);
    return there.id == trial.id && there.data == trial.data && there.best_epoch == trial.best_epoch;
  } catch (const FormatError &) { // it is written again
    return false;
  }
}

void RunsFolder::remove_best() const {
  shard::remove_file(file("best/trial.json"));
  shard::remove_file(best_model());
}

} // namespace tl::select
