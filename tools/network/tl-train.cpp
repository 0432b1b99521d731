// What tl-train becomes once its command line is understood.
#include "cli/io.h"
#include "cli/log.h"
#include "network/start.h"
#include "options/train.h"
#include "runtime/allocation.h"
#include "runtime/host.h"
#include "train/run.h"

#include <algorithm>

namespace {

using Arguments = tl::tools::TrainArguments;

tl::graph::Scheme scheme(const Arguments &arguments) {
  tl::graph::Scheme scheme;
  if (!arguments.head.empty()) scheme.head = tl::graph::Head::parse(arguments.head);
  scheme.train = arguments.train_pattern;
  scheme.unfreeze = arguments.unfreeze;
  if (!arguments.adapters.empty()) scheme.adapters = tl::graph::Adapters::parse(arguments.adapters);
  scheme.features = arguments.head_input;
  scheme.pool = tl::graph::pool_from_name(arguments.pool);
  if (!scheme.head && (!scheme.features.empty() || scheme.pool != tl::graph::Pool::automatic))
    throw tl::UsageError("--features and --pool are for a new head: give --head");
  return scheme;
}

tl::train::Setup make_setup(const Arguments &arguments, const tl::train::RunFolder &folder,
                            std::uint64_t seed) {
  tl::train::SourceOptions source;
  source.threads = arguments.threads;
  source.keep_going = arguments.keep_going;
  if (arguments.by_content) source.order = seed;
  source.keep = folder.features();
  // A plan that cuts elsewhere continues the same training; what the old one's stream left has no use then.
  source.force = arguments.force || arguments.resume;
  if (arguments.plan.empty()) {
    tl::data::SourceOptions listing = arguments.listing;
    listing.seed = seed;
    return tl::train::setup_from_dataset(
        {arguments.model, arguments.data, listing, arguments.preprocess, scheme(arguments), source}, seed);
  }
  return tl::train::setup_from_plan(
      {arguments.plan, arguments.model, arguments.features, arguments.resume, source}, seed);
}

/// A plan for a larger machine than this one must not fill its memory.
std::int64_t cache_bytes(const Arguments &arguments, const tl::train::Setup &setup) {
  if (arguments.cache >= 0) return arguments.cache;
  const std::int64_t most = tl::usable_memory() / 2;
  return setup.cache_bytes ? std::min(*setup.cache_bytes, most) : most;
}

tl::ExitCode train(const Arguments &arguments, const tl::train::TrainOptions &training) {
  using Mode = tl::train::RunFolder::Mode;
  tl::tools::use_threads(arguments.threads);
  const tl::train::RunFolder folder(arguments.output, arguments.resume  ? Mode::resume
                                                      : arguments.force ? Mode::replace
                                                                        : Mode::fresh);
  tl::train::Setup setup = make_setup(arguments, folder, training.seed);
  tl::train::RunOptions options;
  options.resume = arguments.resume;
  options.metrics_copy = arguments.metrics;
  options.cache_bytes = cache_bytes(arguments, setup);
  options.note = tl::cli::note;
  options.warn = tl::cli::warn;
  const tl::train::RunReport report = tl::train::run_training(folder, std::move(setup), training, options);
  if (!arguments.report.empty()) tl::cli::write_output(arguments.report, tl::json::pretty(report.summary));
  return report.skipped > 0 ? tl::ExitCode::skipped : tl::ExitCode::ok;
}

} // namespace

int main(int argc, char **argv) {
  tl::keep_freed_memory();
  tl::tools::TrainCommand command;
  return tl::cli::run(command.app, argc, argv,
                      [&] { return train(command.arguments(), command.training()); });
}
