// What tl-select becomes once its command line is understood.
#include "cli/io.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "network/start.h"
#include "options/select.h"
#include "runtime/allocation.h"
#include "select/curve.h"
#include "select/executor.h"
#include "select/garbage.h"
#include "select/html.h"
#include "select/job.h"
#include "select/progress.h"
#include "select/select.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

namespace {

using Arguments = tl::tools::SelectArguments;

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
  const tl::json::Value plan = tl::json::load(arguments.runs + "/reuse-plan.json", "reuse");
  const auto catalogue = tl::store::Catalogue::read(arguments.runs + "/catalogue.db");
  const tl::select::History history = tl::select::read_history(catalogue);
  const std::string curve = history.cycles.size() > 1 ? tl::select::labelling_svg(history) : "";
  tl::cli::write_output(arguments.html,
                        tl::select::html_report({selection.leaderboard, plan, epochs, curve}));
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
  const tl::select::GarbageReport report =
      tl::select::collect_garbage(arguments.runs, {arguments.budget, arguments.trials, arguments.dry_run});
  const auto size = [](std::int64_t bytes) { return tl::cli::human_bytes(static_cast<double>(bytes)); };
  std::string text;
  for (const tl::select::Removal &removal : report.removed)
    text += removal.what + "  " + size(removal.bytes) + "  " + removal.why + "\n";
  tl::cli::write_output("-", text);
  tl::cli::note(arguments.runs + ": " + size(report.before) + " of features, " + size(report.after) +
                (arguments.dry_run ? " if this were done" : " now"));
  return tl::ExitCode::ok;
}

tl::select::SelectOptions options_of(const Arguments &arguments) {
  tl::select::SelectOptions options;
  options.runs = arguments.runs;
  options.threads = arguments.threads;
  options.keep_going = arguments.keep_going;
  options.disk_budget = arguments.disk_budget;
  options.memory_budget = arguments.memory_budget;
  for (const auto keep : {tl::reuse::Keep::all, tl::reuse::Keep::none})
    if (arguments.materialise == tl::select::name_of(keep)) options.keep = keep;
  options.fuse = arguments.fuse;
  options.warm_start = arguments.warm_start;
  options.verify = arguments.verify;
  return options;
}

/// One job of a run that was planned before.
tl::ExitCode do_job(const Arguments &arguments, const tl::select::Experiment &experiment,
                    const tl::data::Dataset &dataset) {
  tl::select::SelectEvents events;
  events.note = tl::cli::note;
  events.warn = tl::cli::warn;
  tl::cli::Progress progress(arguments.part ? "extracting" : "training", 0);
  events.extracted = [&](std::size_t records) { progress.advance(records); };
  events.trained = [&](const auto &, const auto &trial) {
    progress.advance();
    if (trial.failed()) tl::cli::warn(trial.name + ": " + trial.failure);
  };
  const std::size_t skipped = tl::select::run_job(experiment, dataset, options_of(arguments),
                                                  {arguments.part, arguments.candidates}, events);
  return skipped == 0 ? tl::ExitCode::ok : tl::ExitCode::skipped;
}

/// The jobs of --executor, before this process does what is missing. `program`: this one, as the jobs start
/// it.
bool distribute(const Arguments &arguments, const std::string &program,
                const tl::select::Experiment &experiment, const tl::select::ReusePlan &plan,
                const std::vector<tl::select::Candidate> &candidates) {
  tl::select::Call call;
  call.program = program;
  call.experiment = arguments.experiment;
  call.dataset = arguments.dataset;
  call.runs = arguments.runs;
  call.threads = arguments.threads;
  call.keep_going = arguments.keep_going;
  call.train = !experiment.search.by_rungs();
  const tl::select::ExecutorOptions execution{tl::select::engine_from_name(arguments.executor),
                                              arguments.jobs, arguments.only_write_jobs, arguments.sbatch};
  tl::select::execute(plan, candidates, call, execution);
  if (execution.only_write)
    tl::cli::note("the jobs are in " + call.runs + "/jobs: run its Makefile or submit.sh, then this again");
  return !execution.only_write;
}

tl::ExitCode select(const Arguments &arguments, const std::string &program) {
  tl::tools::use_threads(arguments.threads);
  const tl::select::Experiment experiment = tl::select::load_experiment(arguments.experiment);
  const tl::data::Dataset dataset = tl::tools::open_dataset(arguments.dataset, experiment.data);

  if (arguments.is_job()) return do_job(arguments, experiment, dataset);
  tl::select::Selection selection;
  {
    Reporter reporter(arguments.explain);
    tl::select::SelectOptions options = options_of(arguments);
    if (arguments.executor != "local")
      options.distribute = [&](const auto &plan, const auto &candidates) {
        return distribute(arguments, program, experiment, plan, candidates);
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
  tl::keep_freed_memory();
  tl::tools::SelectCommand command;
  return tl::cli::run(command.app, argc, argv, [&] {
    const Arguments arguments = command.arguments();
    if (command.app.got_subcommand("history")) return history(arguments);
    if (command.app.got_subcommand("gc")) return collect_garbage(arguments);
    return select(arguments, argv[0]);
  });
}
