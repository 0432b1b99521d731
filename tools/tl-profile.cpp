// tl-profile: a model, a data set, this host or a link in, what was measured out.
#include "cli/app.h"
#include "cli/io.h"
#include "cli/log.h"
#include "extract/input.h"
#include "plan/link.h"
#include "profile/codecs.h"
#include "profile/data.h"
#include "profile/host.h"
#include "profile/model.h"
#include "profile/table.h"

#include <cstdio>
#include <optional>

namespace {

constexpr const char *kExamples = "  tl-profile model resnet18.pt --data photos/ > here.json\n"
                                  "  ssh storage tl-profile model resnet18.pt --data /photos > there.json\n"
                                  "  tl-profile data photos/ --preprocess imagenet -o data.json\n"
                                  "  tl-profile host\n"
                                  "  tl-profile link --via 'ssh storage' > link.json";

struct Arguments {
  std::string output = "-", model, dataset, preprocess, via;
  std::vector<std::int64_t> batches;
  int threads = 0;
  double seconds = 20, link_seconds = 2;
  std::size_t records = 256;
  tl::data::SourceOptions source;
};

void add_output(CLI::App &command, Arguments &arguments) {
  command.add_option("-o,--output", arguments.output, "Where the profile goes; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
}

void add_threads(CLI::App &command, Arguments &arguments) {
  command.add_option("--threads", arguments.threads, "Threads that work (default: cores)")
      ->check(CLI::Range(1, 4096));
}

void add_data_options(CLI::App &command, Arguments &arguments) {
  command
      .add_option("--preprocess", arguments.preprocess,
                  "Preset, settings, or JSON file (default: by the data; imagenet for pictures)")
      ->type_name("HOW");
  command.add_option("--records", arguments.records, "Records of the data set to try, at most")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      .add_option("--data-format", arguments.source.format,
                  "Kind of data set: auto, folder, csv, list, list0 (NUL), tar, webdataset, safetensors, idx")
      ->type_name("KIND")
      ->capture_default_str();
  command
      .add_option("--missing", arguments.source.missing,
                  "Where a WebDataset sample lacks its picture or label: error or skip")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str();
  command.add_option("--classes", arguments.source.classes, "Only these classes: names, or ranges like 5-9")
      ->delimiter(',')
      ->type_name("NAME,...");
  command.add_option("--limit", arguments.source.limit, "At most so many records of each class")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--split", arguments.source.split, "Sub-folder, or prefix of IDX files: train, test")
      ->type_name("NAME");
}

void add_commands(CLI::App &app, Arguments &arguments) {
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

void print_notes(const std::vector<std::string> &notes) {
  for (const std::string &note : notes) tl::cli::note(note);
}

void add_host(tl::plan::Profile &profile, const Arguments &arguments) {
  profile.host = tl::profile::measure_host(arguments.threads);
  const std::string warning = tl::profile::blas_warning(*profile.host);
  if (!warning.empty()) tl::cli::warn(warning);
}

std::optional<tl::data::Dataset> open_dataset(const Arguments &arguments) {
  if (arguments.dataset.empty()) return std::nullopt;
  tl::data::Dataset dataset = tl::data::Dataset::open(arguments.dataset, arguments.source);
  for (const std::string &note : dataset.notes()) tl::cli::note(arguments.dataset + ": " + note);
  return dataset;
}

tl::data::Preprocess choose_preprocess(const Arguments &arguments,
                                       const std::optional<tl::data::Dataset> &dataset) {
  if (!arguments.preprocess.empty()) return tl::data::parse_preprocess(arguments.preprocess);
  return dataset ? tl::extract::default_preprocess(*dataset) : tl::data::parse_preprocess("imagenet");
}

void add_data(tl::plan::Profile &profile, const Arguments &arguments, const tl::data::Dataset &dataset,
              const tl::data::Preprocess &preprocess) {
  tl::profile::DataOptions options;
  options.records = arguments.records;
  options.threads = static_cast<std::size_t>(arguments.threads);
  tl::profile::MeasuredData measured = tl::profile::measure_data(dataset, preprocess, options);
  print_notes(measured.notes);
  profile.data = std::move(measured.profile);
}

tl::model::InputSpec choose_input(const tl::data::Preprocess &preprocess,
                                  const std::optional<tl::data::Dataset> &dataset) {
  if (dataset) return tl::extract::input_spec(preprocess, *dataset);
  const tl::Shape shape = preprocess.input_shape();
  if (shape.empty())
    throw tl::UsageError("this preprocessing leaves the shape of the model's input open; give --data, which "
                         "fixes it");
  return {tl::DType::f32, shape};
}

tl::plan::Profile profile_model(Arguments &arguments) {
  const std::optional<tl::data::Dataset> dataset = open_dataset(arguments);
  const tl::data::Preprocess preprocess = choose_preprocess(arguments, dataset);
  const tl::model::Model model =
      tl::model::load_model(arguments.model, choose_input(preprocess, dataset), preprocess.digest());
  tl::plan::Profile profile;
  add_host(profile, arguments);
  if (dataset) add_data(profile, arguments, *dataset, preprocess);
  tl::profile::ModelOptions options;
  options.threads = arguments.threads;
  options.seconds = arguments.seconds;
  options.all_batches = !arguments.batches.empty();
  if (options.all_batches) options.batches = arguments.batches;
  tl::profile::MeasuredModel measured = tl::profile::measure_model(model, preprocess, options);
  print_notes(measured.notes);
  profile.model = std::move(measured.profile);
  tl::profile::CodecOptions codecs;
  codecs.seconds = arguments.seconds / 2;
  tl::profile::MeasuredCodecs coded = tl::profile::measure_codecs(model, preprocess, dataset, codecs);
  print_notes(coded.notes);
  profile.model->codecs = std::move(coded.profile);
  return profile;
}

tl::plan::Profile measure(const CLI::App &app, Arguments &arguments) {
  if (app.got_subcommand("model")) return profile_model(arguments);
  tl::plan::Profile profile;
  if (app.got_subcommand("host")) add_host(profile, arguments);
  if (app.got_subcommand("link"))
    profile.link = tl::plan::measure_link(arguments.via, arguments.link_seconds);
  if (app.got_subcommand("data")) {
    const std::optional<tl::data::Dataset> dataset = open_dataset(arguments);
    add_data(profile, arguments, *dataset, choose_preprocess(arguments, dataset));
  }
  return profile;
}

} // namespace

int main(int argc, char **argv) {
  tl::cli::App app("tl-profile", "Measures a network, a data set, this host, or a link.", kExamples);
  Arguments arguments;
  add_commands(app, arguments);
  return tl::cli::run(app, argc, argv, [&] {
    const tl::plan::Profile profile = measure(app, arguments);
    const tl::json::Value document = to_json(profile);
    tl::json::validate(document, "profile", "the profile");
    if (!tl::cli::quiet()) std::fputs(tl::profile::table(profile).c_str(), stderr);
    tl::cli::write_output(arguments.output, tl::json::pretty(document));
    return tl::ExitCode::ok;
  });
}
