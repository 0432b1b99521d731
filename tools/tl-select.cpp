// tl-select: an experiment and a data set in, a leaderboard and the best model out.
#include "cli/app.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "runtime/host.h"
#include "select/html.h"
#include "select/select.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <map>
#include <optional>

namespace {

constexpr const char *kExamples =
    "  tl-select experiment.json photos/ -o runs/\n"
    "  tl-select experiment.json photos/ -o runs/ --explain --json > leaderboard.json\n"
    "  tl-select - photos/ -o runs/ < experiment.json";

struct Arguments {
  std::string experiment, dataset, html, materialise = "plan";
  bool json = false, explain = false;
  tl::select::SelectOptions options;
};

void add_options(CLI::App &app, Arguments &arguments) {
  app.add_option("experiment", arguments.experiment,
                 "What is tried: models and grids of candidates; - for stdin")
      ->required()
      ->type_name("EXPERIMENT");
  app.add_option("dataset", arguments.dataset,
                 "Folder with a sub-folder per class, CSV or list of paths, tar, .safetensors, IDX, s3:// or "
                 "swift:// URL; - for a list on stdin")
      ->required()
      ->type_name("DATASET");
  app.add_option(
         "-o,--output", arguments.options.runs,
         "Folder for features, trials, the leaderboard and the best model; work that is there is not redone")
      ->required()
      ->type_name("RUNS");
  app.add_flag("--json", arguments.json, "Write the leaderboard as JSON on stdout, not as a table");
  app.add_option("--html", arguments.html, "Write a report here, one HTML file to look at")
      ->type_name("FILE");
  app.add_flag("--explain", arguments.explain,
               "Print on stderr what the candidates share, what is kept, what trains together, and what that "
               "is predicted to take");
  app.add_option("--disk-budget", arguments.options.disk_budget,
                 "For features; what does not fit is computed when it is needed (default: the experiment's, "
                 "or no limit)")
      ->transform(tl::cli::size_in_bytes());
  app.add_option("--memory-budget", arguments.options.memory_budget,
                 "For candidates that train together, and their rows (default: the experiment's, or half of "
                 "the host's)")
      ->transform(tl::cli::size_in_bytes());
  app.add_option("--materialise", arguments.materialise,
                 "Features to keep on disk: as planned, all that candidates read, or none")
      ->check(CLI::IsMember({"plan", "all", "none"}))
      ->capture_default_str();
  app.add_flag_callback(
      "--no-fuse", [&arguments] { arguments.options.fuse = false; }, "Train each candidate alone");
  app.add_option("--threads", arguments.options.threads,
                 "Threads for decoding and for the network (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--keep-going", arguments.options.keep_going,
               "Skip damaged records, name them, and exit with 3");
}

/// Tells the user what happens: notes, warnings, and a progress bar for extraction and for training.
class Reporter {
public:
  explicit Reporter(bool explain) : explain_(explain) {}

  tl::select::SelectEvents events() {
    tl::select::SelectEvents events;
    events.planned = [this](const auto &plan, const auto &candidates, const auto &graphs) {
      planned(plan, candidates, graphs);
    };
    events.note = tl::cli::note;
    events.warn = tl::cli::warn;
    events.extracted = [this](std::size_t records) { progress_->advance(records); };
    events.trained = [this](const auto &, const auto &trial) { trained(trial); };
    return events;
  }

  /// Of earlier runs.
  std::size_t kept() const { return kept_; }

private:
  void planned(const tl::select::ReusePlan &plan, const std::vector<tl::select::Candidate> &candidates,
               const tl::select::SharedGraphs &graphs) {
    candidates_ = candidates.size();
    if (explain_)
      for (const std::string &line : explain(plan, candidates, graphs))
        std::fprintf(stderr, "%s\n", line.c_str());
    progress_.emplace("extracting", static_cast<std::uint64_t>(plan.records) * plan.passes.size());
  }

  void trained(const tl::select::Trial &trial) {
    if (!training_) progress_.emplace("training", candidates_);
    training_ = true;
    progress_->advance();
    if (trial.failed()) tl::cli::warn(trial.name + ": " + trial.failure);
    kept_ += trial.cached;
  }

  bool explain_;
  bool training_ = false;
  std::size_t candidates_ = 0, kept_ = 0;
  std::optional<tl::cli::Progress> progress_;
};

/// The report for a browser.
void write_html(const Arguments &arguments, const tl::select::Selection &selection) {
  std::map<std::string, tl::json::Value> epochs;
  for (const tl::select::Row &row : selection.rows) epochs[row.trial.id] = row.trial.history;
  const tl::json::Value plan = tl::json::load(arguments.options.runs + "/reuse-plan.json", "reuse");
  tl::cli::write_output(arguments.html, tl::select::html_report({selection.leaderboard, plan, epochs, ""}));
}

tl::ExitCode select(const Arguments &arguments) {
  if (arguments.experiment == "-" && arguments.dataset == "-")
    throw tl::UsageError("the experiment and the list of records cannot both come from stdin");
  if (arguments.html == "-") throw tl::UsageError("--html takes a file; the leaderboard goes to stdout");
  if (arguments.options.runs == "-") throw tl::UsageError("-o takes a folder");
  at::set_num_threads(arguments.options.threads > 0 ? static_cast<int>(arguments.options.threads)
                                                    : tl::usable_cores());
  const tl::select::Experiment experiment = tl::select::load_experiment(arguments.experiment);
  const tl::data::Dataset dataset = tl::data::Dataset::open(arguments.dataset, experiment.data);
  for (const std::string &note : dataset.notes()) tl::cli::note(arguments.dataset + ": " + note);

  tl::select::Selection selection;
  {
    Reporter reporter(arguments.explain);
    tl::select::SelectOptions options = arguments.options;
    for (const auto keep : {tl::reuse::Keep::all, tl::reuse::Keep::none})
      if (arguments.materialise == tl::select::name_of(keep)) options.keep = keep;
    selection = tl::select::select(experiment, dataset, options, reporter.events());
    const std::size_t trained = selection.rows.size() - reporter.kept();
    tl::cli::note(std::to_string(trained) + " candidates trained, " + std::to_string(reporter.kept()) +
                  " kept from an earlier run");
  }
  tl::cli::write_output("-", arguments.json ? tl::json::compact(selection.leaderboard) + "\n"
                                            : table(selection.rows, experiment.metric));
  if (!arguments.html.empty()) write_html(arguments, selection);
  if (selection.best.empty()) throw tl::Error("every candidate failed; the leaderboard says why");
  tl::cli::note("the best model is " + selection.best);
  return selection.skipped == 0 ? tl::ExitCode::ok : tl::ExitCode::skipped;
}

} // namespace

int main(int argc, char **argv) {
  tl::cli::App app(
      "tl-select",
      "Trains the candidates of an experiment on features that are extracted once, and ranks them.",
      kExamples);
  Arguments arguments;
  add_options(app, arguments);
  return tl::cli::run(app, argc, argv, [&] { return select(arguments); });
}
