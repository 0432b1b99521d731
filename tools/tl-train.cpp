// tl-train: features (or a data set) and a scheme in, a trained TorchScript model out.
#include "cli/app.h"
#include "cli/io.h"
#include "cli/log.h"
#include "runtime/host.h"
#include "train/flags.h"
#include "train/run.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace {

constexpr const char *kExamples =
    "  tl-train --plan plan.json features/ -o run/\n"
    "  ssh storage tl-extract --plan - /photos -o - < plan.json | tl-train --plan plan.json - -o run/\n"
    "  tl-train --plan plan.json features/ -o run/ --resume\n"
    "  tl-train --model resnet18.pt --data photos/ --train layer4 --head linear -o run/";

struct Arguments {
  std::string plan, features, output, model, data, preprocess, head, train_pattern, head_input, adapters,
      pool = "auto";
  std::string metrics, report;
  std::size_t threads = 0;
  std::int64_t cache = -1; // bytes
  std::int64_t unfreeze = 0;
  bool resume = false, force = false, keep_going = false, by_content = false;
  tl::data::SourceOptions listing;
};

void add_planned_options(CLI::App &app, Arguments &arguments) {
  app.add_option("shards", arguments.features,
                 "Shards of tl-extract: a folder, a file, the URL of either, or - for a stream on stdin")
      ->type_name("FEATURES");
  app.add_option("--plan", arguments.plan, "Plan of tl-split; - for stdin")->type_name("FILE");
  app.add_option("--model", arguments.model, "TorchScript file (default: the plan's)")->type_name("FILE");
  app.add_option("-o,--output", arguments.output, "Folder of the run: model.pt, metrics.jsonl, checkpoint")
      ->required()
      ->type_name("RUN");
  app.add_flag("--resume", arguments.resume, "Continue the run in RUN from its last epoch");
  app.add_flag("--force", arguments.force, "Replace an earlier run in RUN");
  app.add_flag("--by-content", arguments.by_content,
               "Train in an order of the records' contents in the first epoch, too, as tl-select does: names "
               "then change nothing. Files are read once more; not for a stream");
  app.add_flag("--keep-going", arguments.keep_going, "Leave damaged records out, name them, and exit with 3");
  app.add_option("--threads", arguments.threads, "Threads for decoding and for the network (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--cache", arguments.cache,
                 "Memory for features kept between epochs (default: the plan's, or half of the memory)")
      ->transform(tl::cli::size_in_bytes());
  app.add_option("--metrics", arguments.metrics, "Write the metrics lines here too; - for stdout")
      ->type_name("FILE");
  app.add_option("--json", arguments.report, "Write a summary here; - for stdout")->type_name("FILE");
}

void add_direct_options(CLI::App &app, Arguments &arguments) {
  constexpr const char *kGroup = "Without a plan";
  const auto text = [&](const char *name, std::string &into, const char *description, const char *type) {
    return app.add_option(name, into, description)->type_name(type)->group(kGroup);
  };
  text("--data", arguments.data,
       "Data set: folder with a sub-folder per class, CSV or list, tar, .safetensors, IDX, s3:// or swift:// "
       "URL",
       "DATASET");
  text("--preprocess", arguments.preprocess, "Preset, settings, or JSON file (default: by the data)", "HOW");
  text("--head", arguments.head, "New classifier: linear, mlp:256, mlp:512,128", "HEAD");
  text("--train", arguments.train_pattern, "Train the parameters whose names match as well", "REGEX");
  app.add_option("--unfreeze", arguments.unfreeze, "Train the last blocks of the model as well")
      ->check(CLI::Range(1, 1048576))
      ->type_name("BLOCKS")
      ->group(kGroup);
  text("--adapters", arguments.adapters,
       "Train bottleneck adapters behind the last blocks, or behind every one", "WIDTH[:BLOCKS]");
  text("--features", arguments.head_input,
       "Value that the head reads, or several: A+B, sum:A+B (default: the classifier's input)", "VALUE");
  text("--pool", arguments.pool, "auto, none, mean or class-token", "HOW");
  text("--data-format", arguments.listing.format,
       "auto, folder, csv, list, list0 (NUL), tar, webdataset, safetensors, idx", "KIND");
  text("--split", arguments.listing.split, "Sub-folder, or prefix of IDX files: train, test", "NAME");
  app.add_option("--classes", arguments.listing.classes, "Only these classes: names, or ranges like 5-9")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->group(kGroup);
  text("--missing", arguments.listing.missing,
       "Where a WebDataset sample lacks its picture or label: error or skip", "HOW")
      ->check(CLI::IsMember({"error", "skip"}));
  app.add_option("--limit", arguments.listing.limit, "At most so many records of each class")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->group(kGroup);
}

void check(const CLI::App &app, const Arguments &arguments) {
  if (arguments.resume && arguments.force)
    throw tl::UsageError("--resume continues a run, --force removes it: give one");
  if (arguments.metrics == "-" && arguments.report == "-")
    throw tl::UsageError("the metrics and the summary cannot both go to stdout");
  if (arguments.plan.empty()) {
    if (!arguments.features.empty())
      throw tl::UsageError("features need the plan that they were made by: give --plan FILE");
    if (arguments.data.empty() || arguments.model.empty())
      throw tl::UsageError(
          "what is to be trained? give --plan FILE FEATURES, or --model FILE --data DATASET");
    if (arguments.head.empty() && arguments.train_pattern.empty() && arguments.unfreeze == 0)
      throw tl::UsageError("nothing would be trained: give --head, --train or --unfreeze");
    return;
  }
  if (arguments.features.empty())
    throw tl::UsageError("--plan needs FEATURES: a folder, a file, or - for stdin");
  if (arguments.plan == "-" && arguments.features == "-")
    throw tl::UsageError("the plan and the features cannot both come from stdin");
  for (const char *name :
       {"--data", "--preprocess", "--head", "--train", "--unfreeze", "--adapters", "--features", "--pool",
        "--data-format", "--missing", "--split", "--classes", "--limit"})
    if (app.count(name) > 0)
      throw tl::UsageError(std::string(name) +
                           " is for training without a plan; the plan says what is trained");
}

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
  at::set_num_threads(arguments.threads > 0 ? static_cast<int>(arguments.threads) : tl::usable_cores());
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
  tl::cli::App app("tl-train", "Trains what a plan leaves to the compute side, on features as they arrive.",
                   kExamples);
  Arguments arguments;
  add_planned_options(app, arguments);
  const tl::train::TrainFlags flags(app);
  add_direct_options(app, arguments);
  return tl::cli::run(app, argc, argv, [&] {
    check(app, arguments);
    return train(arguments, flags.options());
  });
}
