#include "options/profile.h"

#include "options/dataset.h"

namespace tl::tools {

namespace {

constexpr const char *kProfileExamples =
    "  tl-profile model resnet18.pt --data photos/ > here.json\n"
    "  ssh storage tl-profile model resnet18.pt --data /photos > there.json\n"
    "  tl-profile data photos/ --preprocess imagenet -o data.json\n"
    "  tl-profile host\n"
    "  tl-profile link --via 'ssh storage' > link.json";

void add_output(CLI::App &command, ProfileArguments &arguments) {
  command.add_option("-o,--output", arguments.output, "Where the profile goes; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
}

void add_threads(CLI::App &command, ProfileArguments &arguments) {
  command.add_option("--threads", arguments.threads, "Threads that work (default: cores)")
      ->check(CLI::Range(1, 4096));
}

void add_data_options(CLI::App &command, ProfileArguments &arguments) {
  command
      .add_option("--preprocess", arguments.preprocess,
                  "Preset, settings, or JSON file (default: by the data; imagenet for pictures)")
      ->type_name("HOW");
  command.add_option("--records", arguments.records, "Records of the data set to try, at most")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  add_dataset_options(command, arguments.source);
}

void add_commands(CLI::App &app, ProfileArguments &arguments) {
  app.require_subcommand(1);
  app.fallthrough();
  CLI::App *model = app.add_subcommand(
      "model", "Time, memory and size of every part of a network, with the host (and the data)");
  model->add_option("model", arguments.model, "TorchScript file")->required()->type_name("MODEL");
  model->add_option("--data", arguments.dataset, "Measure this data set too; fixes the size of the input")
      ->type_name("DATASET");
  model->add_option("--batches", arguments.batches, "Batch sizes (default: 1,8,32 as far as --seconds allow)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1048576))
      ->type_name("N,...");
  model->add_option("--seconds", arguments.seconds, "Time to spend on the network, about")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  model->add_flag("--allow-bf16", arguments.allow_bf16,
                  "Frozen layers may be run in bf16, which rounds features, where that is faster");
  add_data_options(*model, arguments);
  add_threads(*model, arguments);
  add_output(*model, arguments);

  CLI::App *data = app.add_subcommand("data", "Speed of reading, decoding and preprocessing a data set");
  data->add_option("dataset", arguments.dataset,
                   "Folder, CSV or list of paths, tar, .safetensors, IDX, s3:// or swift:// URL")
      ->required()
      ->type_name("DATASET");
  add_data_options(*data, arguments);
  add_threads(*data, arguments);
  add_output(*data, arguments);

  CLI::App *host = app.add_subcommand("host", "Speed of this machine: matrix products, memory");
  add_threads(*host, arguments);
  add_output(*host, arguments);

  CLI::App *link = app.add_subcommand("link", "Bandwidth and round-trip time to another machine");
  link->add_option("--via", arguments.via, "Command that runs a command there: 'ssh storage'")
      ->required()
      ->type_name("COMMAND");
  link->add_option("--seconds", arguments.link_seconds, "Time to send for")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  add_output(*link, arguments);
}

} // namespace

ProfileCommand::ProfileCommand()
    : app("tl-profile", "Measures a network, a data set, this host, or a link.", kProfileExamples) {
  add_commands(app, given_);
}

} // namespace tl::tools
