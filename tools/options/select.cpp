#include "options/select.h"

namespace tl::tools {

namespace {

constexpr const char *kSelectExamples =
    "  tl-select experiment.json photos/ -o runs/\n"
    "  tl-select experiment.json photos/ -o runs/ --explain --json > leaderboard.json\n"
    "  tl-select - photos/ -o runs/ < experiment.json\n"
    "  tl-select history runs/ --plot curve.svg\n"
    "  tl-select gc runs/ --budget 10G --dry-run";

void add_options(CLI::App &app, SelectArguments &arguments) {
  app.add_option("experiment", arguments.experiment,
                 "What is tried: models and grids of candidates; - for stdin (required)")
      ->type_name("EXPERIMENT");
  app.add_option("dataset", arguments.dataset,
                 "Folder with a sub-folder per class, CSV or list of paths, tar, .safetensors, IDX, s3:// or "
                 "swift:// URL; - for a list on stdin (required)")
      ->type_name("DATASET");
  app.add_option(
         "-o,--output", arguments.runs,
         "Folder for features, trials, the leaderboard and the best model; work that is there is not redone "
         "(required)")
      ->type_name("RUNS");
  app.add_flag("--json", arguments.json, "Write the leaderboard as JSON on stdout, not as a table");
  app.add_option("--html", arguments.html, "Write a report here, one HTML file to look at")
      ->type_name("FILE");
  app.add_flag("--explain", arguments.explain,
               "Print on stderr what the candidates share, what is kept, what trains together, and what that "
               "is predicted to take");
  app.add_option("--disk-budget", arguments.disk_budget,
                 "For features; what does not fit is computed when it is needed (default: the experiment's, "
                 "or no limit)")
      ->transform(cli::size_in_bytes());
  app.add_option("--memory-budget", arguments.memory_budget,
                 "For candidates that train together, and their rows (default: the experiment's, or half of "
                 "the host's)")
      ->transform(cli::size_in_bytes());
  app.add_option("--materialise", arguments.materialise,
                 "Features to keep on disk: as planned, all that candidates read, or none")
      ->check(CLI::IsMember({"plan", "all", "none"}))
      ->capture_default_str();
  app.add_flag_callback(
      "--no-fuse", [&arguments] { arguments.fuse = false; }, "Train each candidate alone");
  app.add_option("--threads", arguments.threads, "Threads for decoding and for the network (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--keep-going", arguments.keep_going, "Skip damaged records, name them, and exit with 3");
  app.add_flag("--warm-start", arguments.warm_start,
               "Start each candidate from the weights of its last training: results then depend on earlier "
               "cycles");
  app.add_flag("--verify", arguments.verify,
               "Read every record and verify every shard, also those that have not changed by their size and "
               "times");
}

void add_job_options(CLI::App &app, SelectArguments &arguments) {
  app.add_option("--executor", arguments.executor,
                 "Who extracts and trains: this process, or jobs of make or Slurm")
      ->check(CLI::IsMember({"local", "make", "slurm"}))
      ->capture_default_str();
  app.add_option("--jobs", arguments.jobs,
                 "Parts of the extraction, and jobs that make runs at once (default: cores)")
      ->check(CLI::Range(std::int64_t{1}, shard::kMaxParts));
  app.add_option("--sbatch", arguments.sbatch, "Further options of sbatch for every job of Slurm")
      ->type_name("OPTIONS");
  app.add_flag("--write-jobs", arguments.only_write_jobs,
               "Plan, write the jobs of --executor to RUNS/jobs, and end");
  app.add_option_function<std::string>(
         "--partition", [&](const std::string &text) { arguments.part = shard::parse_partition(text); },
         "A job: only extract part I of N, as an earlier call has planned")
      ->type_name("I/N");
  app.add_option("--candidates", arguments.candidates, "A job: only train these, once all parts are there")
      ->delimiter(',')
      ->type_name("ID,...");
}

/// A file of the name of a command can still be an experiment: ./history.
void add_commands(CLI::App &app, SelectArguments &arguments) {
  app.require_subcommand(0, 1);
  app.fallthrough();
  const auto add = [&](const char *name, const char *description) {
    CLI::App *command = app.add_subcommand(name, description);
    command->add_option("runs", arguments.runs, "Folder of earlier runs")->required()->type_name("RUNS");
    return command;
  };
  CLI::App *history =
      add("history", "The cycles in RUNS: how the data changed, and how good the best became");
  history->add_flag("--json", arguments.json, "Write cycles and labelling curves as JSON on stdout");
  history
      ->add_option("--plot", arguments.plot,
                   "Draw the labelling curves as SVG; - for stdout, without a table")
      ->type_name("FILE");
  CLI::App *gc = add("gc", "Remove the least valuable features from RUNS");
  gc->add_option("--budget", arguments.budget, "What the features in RUNS may take")
      ->required()
      ->transform(cli::size_in_bytes());
  gc->add_flag("--trials", arguments.trials,
               "Remove the weights of candidates that the last cycle does not name, too");
  gc->add_flag("--dry-run", arguments.dry_run, "Only tell what would be removed");
}

void check_job_options(const SelectArguments &arguments) {
  const bool distributed = arguments.executor != "local";
  if (arguments.is_job() && (distributed || arguments.json || arguments.explain || !arguments.html.empty()))
    throw UsageError("--partition and --candidates do one job of a run; leave out --executor, --json, --html "
                     "and --explain");
  if (!distributed && (arguments.jobs > 0 || arguments.only_write_jobs || !arguments.sbatch.empty()))
    throw UsageError("--jobs, --sbatch and --write-jobs need --executor make or slurm");
  if (arguments.warm_start && (distributed || arguments.is_job()))
    throw UsageError("--warm-start needs --executor local");
  if (distributed && (arguments.experiment == "-" || arguments.dataset == "-"))
    throw UsageError("every job reads the experiment and the data set, so neither can come from stdin");
}

void check(const SelectArguments &arguments) {
  const auto need = [](const std::string &value, const char *name) {
    if (value.empty()) throw UsageError(std::string(name) + " is required (see tl-select --help)");
  };
  need(arguments.experiment, "experiment");
  need(arguments.dataset, "dataset");
  need(arguments.runs, "--output");
  if (arguments.experiment == "-" && arguments.dataset == "-")
    throw UsageError("the experiment and the list of records cannot both come from stdin");
  if (arguments.html == "-") throw UsageError("--html takes a file; the leaderboard goes to stdout");
  if (arguments.runs == "-") throw UsageError("-o takes a folder");
  check_job_options(arguments);
}

} // namespace

SelectCommand::SelectCommand()
    : app("tl-select",
          "Trains the candidates of an experiment on features that are extracted once, and ranks them.",
          kSelectExamples) {
  add_options(app, given_);
  add_job_options(app, given_);
  add_commands(app, given_);
}

SelectArguments SelectCommand::arguments() const {
  if (app.get_subcommands().empty()) check(given_);
  return given_;
}

} // namespace tl::tools
