// tl-select: an experiment and a data set in, a leaderboard and the best model out.
#include "cli/app.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "runtime/host.h"
#include "select/curve.h"
#include "select/executor.h"
#include "select/garbage.h"
#include "select/html.h"
#include "select/job.h"
#include "select/progress.h"
#include "select/select.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

namespace {

constexpr const char *kExamples =
    "  tl-select experiment.json photos/ -o runs/\n"
    "  tl-select experiment.json photos/ -o runs/ --explain --json > leaderboard.json\n"
    "  tl-select - photos/ -o runs/ < experiment.json\n"
    "  tl-select history runs/ --plot curve.svg\n"
    "  tl-select gc runs/ --budget 10G --dry-run";

struct Arguments {
  std::string experiment, dataset, html, materialise = "plan";
  bool json = false, explain = false;
  std::string executor = "local";
  tl::select::ExecutorOptions execution;
  tl::select::Job job;
  tl::select::SelectOptions options;

  std::string runs, plot; // of the commands
  tl::select::GarbageOptions garbage;
};

void add_options(CLI::App &app, Arguments &arguments) {
  app.add_option("experiment", arguments.experiment,
                 "What is tried: models and grids of candidates; - for stdin (required)")
      ->type_name("EXPERIMENT");
  app.add_option("dataset", arguments.dataset,
                 "Folder with a sub-folder per class, CSV or list of paths, tar, .safetensors, IDX, s3:// or "
                 "swift:// URL; - for a list on stdin (required)")
      ->type_name("DATASET");
  app.add_option(
         "-o,--output", arguments.options.runs,
         "Folder for features, trials, the leaderboard and the best model; work that is there is not redone "
         "(required)")
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
  app.add_flag("--warm-start", arguments.options.warm_start,
               "Start each candidate from the weights of its last training: results then depend on earlier "
               "cycles");
  app.add_flag("--verify", arguments.options.verify,
               "Read every record and verify every shard, also those that have not changed by their size and "
               "times");
}

void add_job_options(CLI::App &app, Arguments &arguments) {
  app.add_option("--executor", arguments.executor,
                 "Who extracts and trains: this process, or jobs of make or Slurm")
      ->check(CLI::IsMember({"local", "make", "slurm"}))
      ->capture_default_str();
  app.add_option("--jobs", arguments.execution.jobs,
                 "Parts of the extraction, and jobs that make runs at once (default: cores)")
      ->check(CLI::Range(std::int64_t{1}, tl::shard::kMaxParts));
  app.add_option("--sbatch", arguments.execution.sbatch, "Further options of sbatch for every job of Slurm")
      ->type_name("OPTIONS");
  app.add_flag("--write-jobs", arguments.execution.only_write,
               "Plan, write the jobs of --executor to RUNS/jobs, and end");
  app.add_option_function<std::string>(
         "--partition",
         [&](const std::string &text) { arguments.job.part = tl::shard::parse_partition(text); },
         "A job: only extract part I of N, as an earlier call has planned")
      ->type_name("I/N");
  app.add_option("--candidates", arguments.job.candidates,
                 "A job: only train these, once all parts are there")
      ->delimiter(',')
      ->type_name("ID,...");
}

/// A file of the name of a command can still be an experiment: ./history.
void add_commands(CLI::App &app, Arguments &arguments) {
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
  gc->add_option("--budget", arguments.garbage.budget, "What the features in RUNS may take")
      ->required()
      ->transform(tl::cli::size_in_bytes());
  gc->add_flag("--trials", arguments.garbage.trials,
               "Remove the weights of candidates that the last cycle does not name, too");
  gc->add_flag("--dry-run", arguments.garbage.dry_run, "Only tell what would be removed");
}

/// Tells the user what happens: notes, warnings, and how far the experiment is.
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
    events.extracted = [this](std::size_t records) { progress_->extracted(records); };
    events.trained = [this](const auto &, const auto &trial) { trained(trial); };
    return events;
  }

  /// Of earlier runs.
  std::size_t kept() const { return kept_; }

private:
  void planned(const tl::select::ReusePlan &plan, const std::vector<tl::select::Candidate> &candidates,
               const tl::select::SharedGraphs &graphs) {
    if (explain_)
      for (const std::string &line : explain(plan, candidates, graphs))
        std::fprintf(stderr, "%s\n", line.c_str());
    progress_.emplace(plan);
  }

  void trained(const tl::select::Trial &trial) {
    progress_->trained();
    if (trial.failed()) tl::cli::warn(trial.name + ": " + trial.failure);
    kept_ += trial.cached;
  }

  bool explain_;
  std::size_t kept_ = 0;
  std::optional<tl::select::ExperimentProgress> progress_;
};

/// The report for a browser.
void write_html(const Arguments &arguments, const tl::select::Selection &selection) {
  std::map<std::string, tl::json::Value> epochs;
  for (const tl::select::Row &row : selection.rows) epochs[row.trial.id] = row.trial.history;
  const tl::json::Value plan = tl::json::load(arguments.options.runs + "/reuse-plan.json", "reuse");
  const auto catalogue = tl::store::Catalogue::read(arguments.options.runs + "/catalogue.db");
  const tl::select::History history = tl::select::read_history(catalogue);
  const std::string curve = history.cycles.size() > 1 ? tl::select::labelling_svg(history) : "";
  tl::cli::write_output(arguments.html,
                        tl::select::html_report({selection.leaderboard, plan, epochs, curve}));
}

bool is_job(const Arguments &arguments) { return arguments.job.part || !arguments.job.candidates.empty(); }

void check_job_options(const Arguments &arguments) {
  const bool distributed = arguments.executor != "local";
  const tl::select::ExecutorOptions &execution = arguments.execution;
  if (is_job(arguments) && (distributed || arguments.json || arguments.explain || !arguments.html.empty()))
    throw tl::UsageError(
        "--partition and --candidates do one job of a run; leave out --executor, --json, --html "
        "and --explain");
  if (!distributed && (execution.jobs > 0 || execution.only_write || !execution.sbatch.empty()))
    throw tl::UsageError("--jobs, --sbatch and --write-jobs need --executor make or slurm");
  if (arguments.options.warm_start && (distributed || is_job(arguments)))
    throw tl::UsageError("--warm-start needs --executor local");
  if (distributed && (arguments.experiment == "-" || arguments.dataset == "-"))
    throw tl::UsageError("every job reads the experiment and the data set, so neither can come from stdin");
}

void check_arguments(const Arguments &arguments) {
  const auto need = [](const std::string &value, const char *name) {
    if (value.empty()) throw tl::UsageError(std::string(name) + " is required (see tl-select --help)");
  };
  need(arguments.experiment, "experiment");
  need(arguments.dataset, "dataset");
  need(arguments.options.runs, "--output");
  if (arguments.experiment == "-" && arguments.dataset == "-")
    throw tl::UsageError("the experiment and the list of records cannot both come from stdin");
  if (arguments.html == "-") throw tl::UsageError("--html takes a file; the leaderboard goes to stdout");
  if (arguments.options.runs == "-") throw tl::UsageError("-o takes a folder");
  check_job_options(arguments);
}

tl::ExitCode history(const Arguments &arguments) {
  const std::string file = (std::filesystem::path(arguments.runs) / "catalogue.db").string();
  const auto catalogue = tl::store::Catalogue::read(file);
  const tl::select::History found = tl::select::read_history(catalogue);
  if (!arguments.plot.empty()) tl::cli::write_output(arguments.plot, tl::select::labelling_svg(found));
  if (arguments.plot == "-") return tl::ExitCode::ok;
  const tl::json::Value document = to_json(found);
  tl::json::validate(document, "history", arguments.runs);
  tl::cli::write_output("-", arguments.json ? tl::json::compact(document) + "\n" : table(found));
  return tl::ExitCode::ok;
}

tl::ExitCode collect_garbage(const Arguments &arguments) {
  const tl::select::GarbageReport report = tl::select::collect_garbage(arguments.runs, arguments.garbage);
  const auto size = [](std::int64_t bytes) { return tl::cli::human_bytes(static_cast<double>(bytes)); };
  std::string text;
  for (const tl::select::Removal &removal : report.removed)
    text += removal.what + "  " + size(removal.bytes) + "  " + removal.why + "\n";
  tl::cli::write_output("-", text);
  tl::cli::note(arguments.runs + ": " + size(report.before) + " of features, " + size(report.after) +
                (arguments.garbage.dry_run ? " if this were done" : " now"));
  return tl::ExitCode::ok;
}

/// One job of a run that was planned before.
tl::ExitCode do_job(const Arguments &arguments, const tl::select::Experiment &experiment,
                    const tl::data::Dataset &dataset) {
  tl::select::SelectEvents events;
  events.note = tl::cli::note;
  events.warn = tl::cli::warn;
  tl::cli::Progress progress(arguments.job.part ? "extracting" : "training", 0);
  events.extracted = [&](std::size_t records) { progress.advance(records); };
  events.trained = [&](const auto &, const auto &trial) {
    progress.advance();
    if (trial.failed()) tl::cli::warn(trial.name + ": " + trial.failure);
  };
  const std::size_t skipped =
      tl::select::run_job(experiment, dataset, arguments.options, arguments.job, events);
  return skipped == 0 ? tl::ExitCode::ok : tl::ExitCode::skipped;
}

/// The jobs of --executor, before this process does what is missing.
bool distribute(const Arguments &arguments, const tl::select::Experiment &experiment,
                const tl::select::ReusePlan &plan, const std::vector<tl::select::Candidate> &candidates) {
  tl::select::Call call;
  call.program = std::filesystem::read_symlink("/proc/self/exe").string();
  call.experiment = arguments.experiment;
  call.dataset = arguments.dataset;
  call.runs = arguments.options.runs;
  call.threads = arguments.options.threads;
  call.keep_going = arguments.options.keep_going;
  call.train = !experiment.search.by_rungs();
  tl::select::ExecutorOptions execution = arguments.execution;
  execution.engine = tl::select::engine_from_name(arguments.executor);
  tl::select::execute(plan, candidates, call, execution);
  if (execution.only_write)
    tl::cli::note("the jobs are in " + call.runs + "/jobs: run its Makefile or submit.sh, then this again");
  return !execution.only_write;
}

tl::ExitCode select(const Arguments &arguments) {
  check_arguments(arguments);
  at::set_num_threads(arguments.options.threads > 0 ? static_cast<int>(arguments.options.threads)
                                                    : tl::usable_cores());
  const tl::select::Experiment experiment = tl::select::load_experiment(arguments.experiment);
  const tl::data::Dataset dataset = tl::data::Dataset::open(arguments.dataset, experiment.data);
  for (const std::string &note : dataset.notes()) tl::cli::note(arguments.dataset + ": " + note);

  if (is_job(arguments)) return do_job(arguments, experiment, dataset);
  tl::select::Selection selection;
  {
    Reporter reporter(arguments.explain);
    tl::select::SelectOptions options = arguments.options;
    for (const auto keep : {tl::reuse::Keep::all, tl::reuse::Keep::none})
      if (arguments.materialise == tl::select::name_of(keep)) options.keep = keep;
    if (arguments.executor != "local")
      options.distribute = [&](const auto &plan, const auto &candidates) {
        return distribute(arguments, experiment, plan, candidates);
      };
    selection = tl::select::select(experiment, dataset, options, reporter.events());
    if (selection.leaderboard.is_null()) return tl::ExitCode::ok;
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
  add_job_options(app, arguments);
  add_commands(app, arguments);
  return tl::cli::run(app, argc, argv, [&] {
    if (app.got_subcommand("history")) return history(arguments);
    if (app.got_subcommand("gc")) return collect_garbage(arguments);
    return select(arguments);
  });
}
