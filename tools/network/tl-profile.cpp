// What tl-profile becomes once its command line is understood.
#include "cli/io.h"
#include "cli/log.h"
#include "extract/input.h"
#include "network/start.h"
#include "options/profile.h"
#include "plan/link.h"
#include "profile/codecs.h"
#include "profile/data.h"
#include "profile/host.h"
#include "profile/model.h"
#include "profile/table.h"
#include "runtime/allocation.h"

#include <cstdio>
#include <optional>

namespace {

using Arguments = tl::tools::ProfileArguments;

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
  return tl::tools::open_dataset(arguments.dataset, arguments.source);
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

tl::plan::Profile profile_model(const Arguments &arguments) {
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
  options.allow_bf16 = arguments.allow_bf16;
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

tl::plan::Profile measure(const CLI::App &app, const Arguments &arguments) {
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
  tl::keep_freed_memory();
  tl::tools::ProfileCommand command;
  return tl::cli::run(command.app, argc, argv, [&] {
    const tl::plan::Profile profile = measure(command.app, command.arguments());
    const tl::json::Value document = to_json(profile);
    tl::json::validate(document, "profile", "the profile");
    if (!tl::cli::quiet()) std::fputs(tl::profile::table(profile).c_str(), stderr);
    tl::cli::write_output(command.arguments().output, tl::json::pretty(document));
    return tl::ExitCode::ok;
  });
}
