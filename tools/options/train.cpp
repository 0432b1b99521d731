#include "options/train.h"

#include "options/dataset.h"

namespace tl::tools {

namespace {

constexpr const char *kTrainExamples =
    "  tl-train --plan plan.json features/ -o run/\n"
    "  ssh storage tl-extract --plan - /photos -o - < plan.json | tl-train --plan plan.json - -o run/\n"
    "  tl-train --plan plan.json features/ -o run/ --resume\n"
    "  tl-train --model resnet18.pt --data photos/ --train layer4 --head linear -o run/";

constexpr const char *kDirect = "Without a plan"; // the options of that section

void add_planned_options(CLI::App &app, TrainArguments &arguments) {
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
      ->transform(cli::size_in_bytes());
  app.add_option("--metrics", arguments.metrics, "Write the metrics lines here too; - for stdout")
      ->type_name("FILE");
  app.add_option("--json", arguments.report, "Write a summary here; - for stdout")->type_name("FILE");
}

void add_direct_options(CLI::App &app, TrainArguments &arguments) {
  const auto text = [&](const char *name, std::string &into, const char *description, const char *type) {
    return app.add_option(name, into, description)->type_name(type)->group(kDirect);
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
      ->group(kDirect);
  text("--adapters", arguments.adapters,
       "Train bottleneck adapters behind every block; WIDTH:BLOCKS, behind the last ones", "WIDTH");
  text("--features", arguments.head_input,
       "Value that the head reads, or several: A+B, sum:A+B (default: the classifier's input)", "VALUE");
  text("--pool", arguments.pool, "auto, none, mean or class-token", "HOW");
  add_dataset_options(app, arguments.listing, kDirect);
}

void check(const CLI::App &app, const TrainArguments &arguments) {
  if (arguments.resume && arguments.force)
    throw UsageError("--resume continues a run, --force removes it: give one");
  if (arguments.metrics == "-" && arguments.report == "-")
    throw UsageError("the metrics and the summary cannot both go to stdout");
  if (arguments.plan.empty()) {
    if (!arguments.features.empty())
      throw UsageError("features need the plan that they were made by: give --plan FILE");
    if (arguments.data.empty() || arguments.model.empty())
      throw UsageError("what is to be trained? give --plan FILE FEATURES, or --model FILE --data DATASET");
    if (arguments.head.empty() && arguments.train_pattern.empty() && arguments.unfreeze == 0)
      throw UsageError("nothing would be trained: give --head, --train or --unfreeze");
    return;
  }
  if (arguments.features.empty()) throw UsageError("--plan needs FEATURES: a folder, a file, or - for stdin");
  if (arguments.plan == "-" && arguments.features == "-")
    throw UsageError("the plan and the features cannot both come from stdin");
  for (const CLI::Option *option : app.get_options())
    if (option->get_group() == kDirect && option->count() > 0)
      throw UsageError(option->get_name() + " is for training without a plan; the plan says what is trained");
}

} // namespace

TrainCommand::TrainCommand()
    : app("tl-train", "Trains what a plan leaves to the compute side, on features as they arrive.",
          kTrainExamples),
      flags_(app) {
  add_planned_options(app, given_);
  add_direct_options(app, given_);
}

TrainArguments TrainCommand::arguments() const {
  check(app, given_);
  return given_;
}

} // namespace tl::tools
