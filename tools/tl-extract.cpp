// tl-extract: a plan and a data set in, feature shards out.
#include "cli/app.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "extract/extract.h"
#include "extract/input.h"
#include "runtime/host.h"
#include "shard/folder.h"

#include <ATen/Parallel.h>

#include <filesystem>
#include <memory>

namespace {

namespace fs = std::filesystem;

constexpr const char *kExamples =
    "  tl-extract --plan plan.json photos/ -o features/\n"
    "  ssh storage tl-extract --plan - /photos -o - < plan.json | tl-train --plan plan.json - -o run/\n"
    "  tl-extract --model resnet18.pt --cut layer3 --preprocess imagenet photos/ -o layer3/";

struct Arguments {
  std::string plan, dataset, output, model, cut, codec, preprocess, order, report;
  std::int64_t batch = 0, rows_per_shard = 1024;
  std::uint64_t seed = 0;
  std::size_t threads = 0;
  bool seed_given = false, keep_going = false, force = false, prune = false;
  tl::data::SourceOptions source;
};

void add_dataset_options(CLI::App &app, Arguments &arguments) {
  app.add_option(
         "dataset", arguments.dataset,
         "Folder with a sub-folder per class, CSV or list of paths, tar, .safetensors, IDX; - for a list "
         "or tar on stdin")
      ->required()
      ->type_name("DATASET");
  app.add_option("--data-format", arguments.source.format,
                 "Kind of data set: auto, folder, csv, list, list0 (NUL), tar, webdataset, safetensors, idx")
      ->type_name("KIND")
      ->capture_default_str();
  app.add_option("--missing", arguments.source.missing,
                 "Where a WebDataset sample lacks its picture or label: error or skip")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str();
  app.add_option("--classes", arguments.source.classes, "Only these classes: names, or ranges like 5-9")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--limit", arguments.source.limit, "At most so many records of each class")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--split", arguments.source.split, "Sub-folder, or prefix of IDX files: train, test")
      ->type_name("NAME");
}

void add_options(CLI::App &app, Arguments &arguments) {
  add_dataset_options(app, arguments);
  app.add_option("-o,--output", arguments.output,
                 "Folder of shards, one file.safetensors, or - for a stream on stdout")
      ->required()
      ->type_name("PATH");
  app.add_option("--plan", arguments.plan, "Plan of tl-split; - for stdin")->type_name("FILE");
  app.add_option("--model", arguments.model, "TorchScript file (default: the plan's)")->type_name("FILE");
  app.add_option("--cut", arguments.cut, "Without a plan: values joined by '+', 'input', or 'files'")
      ->type_name("NAME");
  app.add_option("--codec", arguments.codec,
                 "Without a plan: how values are written (default: fp32; u8 for pictures at 'input')")
      ->check(CLI::IsMember(tl::codec::names()));
  app.add_option("--preprocess", arguments.preprocess,
                 "Without a plan: preset, settings, or JSON file (default: by the data)")
      ->type_name("HOW");
  app.add_option("--batch", arguments.batch, "Records at a time (default: the plan's, or 32)")
      ->check(CLI::Range(1, 1048576));
  app.add_option("--threads", arguments.threads, "Threads for decoding and for the network (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--order", arguments.order, "listing or shuffled (default: the plan's, or listing)")
      ->check(CLI::IsMember({"listing", "shuffled"}));
  app.add_option("--seed", arguments.seed, "Of the shuffled order, and of --limit (default: the plan's)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 52));
  app.add_flag("--keep-going", arguments.keep_going, "Skip damaged records, name them, and exit with 3");
  app.add_option("--rows-per-shard", arguments.rows_per_shard, "At most, in a folder's shard")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app.add_flag("--prune", arguments.prune, "Remove features that the data set no longer uses");
  app.add_flag("--force", arguments.force, "Replace features of another model, cut or preprocessing");
  app.add_option("--json", arguments.report, "Write a report here")->type_name("FILE");
}

void check(const Arguments &arguments) {
  const bool planned = !arguments.plan.empty();
  if (planned && !(arguments.cut.empty() && arguments.codec.empty() && arguments.preprocess.empty()))
    throw tl::UsageError(
        "the plan says where to cut, in which codec, and how to preprocess; leave out --cut, "
        "--codec and --preprocess");
  if (!planned && arguments.cut.empty())
    throw tl::UsageError("what is to be extracted? give --plan FILE, or --model FILE --cut NAME");
  if (!planned && arguments.cut != "files" && arguments.model.empty())
    throw tl::UsageError("without a plan, --cut " + arguments.cut + " needs --model FILE");
  if (!planned && arguments.cut == "files" &&
      !(arguments.model.empty() && arguments.codec.empty() && arguments.preprocess.empty()))
    throw tl::UsageError(
        "--cut files ships the records as they are; leave out --model, --codec and --preprocess");
  if (arguments.plan == "-" && arguments.dataset == "-")
    throw tl::UsageError("the plan and the data set cannot both come from stdin");
  if (arguments.output == "-" && arguments.report == "-")
    throw tl::UsageError("the features and the report cannot both go to stdout");
  const bool folder = arguments.output != "-" && fs::path(arguments.output).extension() != ".safetensors";
  if (arguments.prune && !folder) throw tl::UsageError("--prune is for a folder of shards");
  std::error_code failed;
  if (!fs::is_directory(arguments.dataset, failed) || arguments.output == "-") return;
  // The next run would take the shards for records.
  const std::string inside = fs::weakly_canonical(arguments.output, failed)
                                 .lexically_relative(fs::canonical(arguments.dataset, failed))
                                 .string();
  if (!failed && !inside.empty() && inside.compare(0, 2, "..") != 0)
    throw tl::UsageError(arguments.output + ": is inside the data set " + arguments.dataset +
                         "; choose a place outside");
}

tl::extract::Prefix make_prefix(const Arguments &arguments, const std::optional<tl::plan::Plan> &plan,
                                const tl::data::Dataset &dataset) {
  if (plan)
    return tl::extract::Prefix::of_plan(*plan, arguments.plan == "-" ? "the plan" : arguments.plan,
                                        arguments.model, dataset);
  if (arguments.cut == "files") return tl::extract::Prefix::of_records(dataset);
  const tl::data::Preprocess preprocess = arguments.preprocess.empty()
                                              ? tl::extract::default_preprocess(dataset)
                                              : tl::data::parse_preprocess(arguments.preprocess);
  const tl::model::Model model = tl::model::load_model(
      arguments.model, tl::extract::input_spec(preprocess, dataset), preprocess.digest());
  const std::vector<bool> all(model.graph.values.size(), true);
  std::optional<tl::codec::Codec> codec;
  if (!arguments.codec.empty()) codec = tl::codec::codec_from_name(arguments.codec);
  return {model, tl::graph::find_cut(model.graph, all, arguments.cut), preprocess, codec};
}

void print_notes(const tl::extract::ExtractReport &report) {
  for (const tl::data::RecordNote &record : report.warned) tl::cli::warn(record.id + ": " + record.reason);
  for (const tl::data::RecordNote &record : report.skipped)
    tl::cli::warn("skipped " + record.id + ": " + record.reason);
  for (const std::string &line : tl::extract::summary(report)) tl::cli::note(line);
}

/// Opens the output, runs, and closes it.
tl::extract::ExtractReport run(const Arguments &arguments, const std::optional<tl::plan::Plan> &plan,
                               const tl::data::Dataset &dataset, const tl::extract::Prefix &prefix,
                               const tl::shard::ShardMeta &meta) {
  tl::shard::SinkOptions sink_options;
  sink_options.rows_per_shard = arguments.rows_per_shard;
  sink_options.force = arguments.force;
  sink_options.expected = static_cast<std::int64_t>(dataset.records().size());
  const auto sink = tl::shard::create_sink(arguments.output, meta, sink_options);
  for (const std::string &note : sink->notes()) tl::cli::warn(note);

  tl::extract::ExtractOptions options;
  options.batch = arguments.batch ? arguments.batch : plan ? plan->batch : 32;
  options.threads = arguments.threads;
  options.keep_going = arguments.keep_going;
  options.shuffle = arguments.order.empty() ? plan && plan->shuffle : arguments.order == "shuffled";
  options.seed = arguments.seed;
  tl::cli::Progress progress("extracting", dataset.records().size());
  options.progress = [&](std::size_t records) { progress.advance(records); };
  return tl::extract::extract(dataset, prefix, *sink, options);
}

void prune(const std::string &folder) {
  const tl::shard::PruneReport pruned = tl::shard::prune(folder);
  tl::cli::note(folder + ": pruned " + std::to_string(pruned.rows) + " unused rows, freed " +
                tl::cli::human_bytes(static_cast<double>(pruned.bytes)));
}

tl::ExitCode extract(Arguments &arguments) {
  check(arguments);
  std::optional<tl::plan::Plan> plan;
  if (!arguments.plan.empty()) plan = tl::plan::load_plan(arguments.plan);
  if (plan && !arguments.seed_given) arguments.seed = plan->seed;
  arguments.source.seed = arguments.seed;
  at::set_num_threads(arguments.threads > 0 ? static_cast<int>(arguments.threads) : tl::usable_cores());

  const tl::data::Dataset dataset = tl::data::Dataset::open(arguments.dataset, arguments.source);
  for (const std::string &note : dataset.notes()) tl::cli::note(arguments.dataset + ": " + note);
  const tl::extract::Prefix prefix = make_prefix(arguments, plan, dataset);
  tl::shard::ShardMeta meta = prefix.meta();
  meta.classes = dataset.classes();

  const tl::extract::ExtractReport report = run(arguments, plan, dataset, prefix, meta);
  print_notes(report);
  if (arguments.prune) prune(arguments.output);
  if (!arguments.report.empty()) {
    const tl::json::Value document = to_json(report, arguments.dataset, arguments.output, meta);
    tl::json::validate(document, "extraction", "the report");
    tl::cli::write_output(arguments.report, tl::json::pretty(document));
  }
  return report.skipped.empty() ? tl::ExitCode::ok : tl::ExitCode::skipped;
}

} // namespace

int main(int argc, char **argv) {
  tl::cli::App app("tl-extract",
                   "Computes the features that a plan asks for, or ships the records themselves.", kExamples);
  Arguments arguments;
  add_options(app, arguments);
  return tl::cli::run(app, argc, argv, [&] {
    arguments.seed_given = app.count("--seed") > 0;
    return extract(arguments);
  });
}
