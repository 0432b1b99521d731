// tl-extract: a plan and a data set in, feature shards out.
#include "cli/app.h"
#include "cli/confine.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "extract/extract.h"
#include "extract/input.h"
#include "extract/memory.h"
#include "object/url.h"
#include "runtime/host.h"
#include "runtime/memory_use.h"
#include "shard/folder.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

constexpr const char *kExamples =
    "  tl-extract --plan plan.json photos/ -o features/\n"
    "  ssh storage tl-extract --plan - /photos -o - < plan.json | tl-train --plan plan.json - -o run/\n"
    "  tl-extract --model resnet18.pt --cut layer3 --preprocess imagenet photos/ -o layer3/\n"
    "  tl-extract --plan plan.json photos/ -o features/ --memory-budget 4G --lease-dir leases/";

constexpr const char *kAllowed =
    "; allowed is: tl-extract --plan - DATASET -o - (--data-format --missing --classes "
    "--limit --split --batch --order --seed --keep-going --quiet)";
constexpr std::size_t kMaxRequest = 65536;                 // bytes
constexpr std::int64_t kUntouched = std::int64_t{1} << 30; // bytes of stacks and heaps that no thread gets to

struct Arguments {
  std::string plan, dataset, output, model, cut, codec, preprocess, order, report;
  std::int64_t batch = 0, rows_per_shard = 1024;
  std::uint64_t seed = 0;
  std::size_t threads = 0;
  std::optional<tl::shard::Partition> part;
  bool seed_given = false, keep_going = false, force = false, prune = false;
  tl::data::SourceOptions source;
  std::string root, lease_dir;
  std::int64_t memory_budget = 0, least_batch = 8;
};

void add_dataset_options(CLI::App &app, Arguments &arguments) {
  app.add_option(
         "dataset", arguments.dataset,
         "Folder with a sub-folder per class, CSV or list of paths, tar, .safetensors, IDX; - for a list "
         "or tar on stdin; of an object store: s3:// or swift://")
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

/// What others may ask for, too.
void add_request_options(CLI::App &app, Arguments &arguments) {
  add_dataset_options(app, arguments);
  app.add_option("-o,--output", arguments.output,
                 "Folder of shards, one file.safetensors, the URL of either, or - for a stream on stdout")
      ->type_name("PATH");
  app.add_option("--plan", arguments.plan, "Plan of tl-split; - for stdin")->type_name("FILE");
  app.add_option("--batch", arguments.batch, "Records at a time (default: the plan's, or 32)")
      ->check(CLI::Range(1, 1048576));
  app.add_option("--order", arguments.order, "listing or shuffled (default: the plan's, or listing)")
      ->check(CLI::IsMember({"listing", "shuffled"}));
  app.add_option("--seed", arguments.seed, "Of the shuffled order, and of --limit (default: the plan's)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 52));
  app.add_flag("--keep-going", arguments.keep_going, "Skip damaged records, name them, and exit with 3");
}

void add_options(CLI::App &app, Arguments &arguments) {
  add_request_options(app, arguments);
  app.add_option("--model", arguments.model, "TorchScript file (default: the plan's)")->type_name("FILE");
  app.add_option("--cut", arguments.cut, "Without a plan: values joined by '+', 'input', or 'files'")
      ->type_name("NAME");
  app.add_option("--codec", arguments.codec,
                 "Without a plan: how values are written (default: fp32; u8 for pictures at 'input')")
      ->check(CLI::IsMember(tl::codec::names()));
  app.add_option("--preprocess", arguments.preprocess,
                 "Without a plan: preset, settings, or JSON file (default: by the data)")
      ->type_name("HOW");
  app.add_option("--threads", arguments.threads, "Threads for decoding and for the network (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rows-per-shard", arguments.rows_per_shard, "At most, in a folder's shard")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--partition", [&](const std::string &text) { arguments.part = tl::shard::parse_partition(text); },
         "Only part I of N, while others extract the rest into the same folder")
      ->type_name("I/N");
  app.add_flag("--prune", arguments.prune, "Remove features that the data set no longer uses");
  app.add_flag("--force", arguments.force, "Replace features of another model, cut or preprocessing");
  app.add_option("--json", arguments.report, "Write a report here")->type_name("FILE");
  app.add_option("--memory-budget", arguments.memory_budget,
                 "Memory that all jobs of this host share; batches are adapted to it")
      ->transform(tl::cli::size_in_bytes());
  app.add_option("--lease-dir", arguments.lease_dir,
                 "Where they meet (default: /run/tl-tools, or tl-tools in XDG_RUNTIME_DIR)")
      ->type_name("DIR");
  app.add_option("--min-batch", arguments.least_batch, "Records at a time at least, whatever the budget")
      ->check(CLI::Range(1, 1048576))
      ->capture_default_str();
  app.add_option(
         "--restrict", arguments.root,
         "Do what SSH_ORIGINAL_COMMAND or the first line of stdin asks for, reading only below this folder")
      ->type_name("ROOT");
}

/// What all processes that run this program use together, and a little for what they have yet to touch.
std::int64_t library_memory() { return tl::library_memory() / 8 * 9; }

bool budgeted(const Arguments &arguments) {
  return arguments.memory_budget > 0 || !arguments.lease_dir.empty();
}

bool lies_inside(const std::string &output, const std::string &dataset) {
  std::error_code failed;
  if (tl::object::is_url(output) && tl::object::is_url(dataset)) {
    const tl::object::Url inner = tl::object::parse_url(output), outer = tl::object::parse_url(dataset);
    const std::string prefix = tl::object::as_folder(outer.key);
    return inner.scheme == outer.scheme && inner.bucket == outer.bucket &&
           tl::object::as_folder(inner.key).compare(0, prefix.size(), prefix) == 0;
  }
  if (!fs::is_directory(dataset, failed) || output == "-" || tl::object::is_url(output)) return false;
  const std::string inside =
      fs::weakly_canonical(output, failed).lexically_relative(fs::canonical(dataset, failed)).string();
  return !failed && !inside.empty() && inside.compare(0, 2, "..") != 0;
}

void check(const Arguments &arguments) {
  if (arguments.dataset.empty())
    throw tl::UsageError("which records? give a DATASET (see tl-extract --help)");
  if (arguments.output.empty())
    throw tl::UsageError("where to? give -o PATH, or -o - for a stream on stdout");
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
  if (arguments.part && (arguments.prune || arguments.force))
    throw tl::UsageError("--force and --prune are for the whole folder; leave out --partition");
  // The next run would take the shards for records.
  if (lies_inside(arguments.output, arguments.dataset))
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

/// Joins those who share the memory of this host, and waits until there is room to begin.
std::unique_ptr<tl::lease::Lease> join(const Arguments &arguments) {
  if (!budgeted(arguments)) return nullptr;
  tl::lease::Options options;
  options.folder = arguments.lease_dir.empty() ? tl::lease::default_folder() : arguments.lease_dir;
  options.budget = arguments.memory_budget;
  options.idle = tl::own_memory();
  options.shared = library_memory();
  options.output_watched = arguments.output == "-";
  auto lease = std::make_unique<tl::lease::Lease>(options);
  tl::limit_memory(lease->budget() + kUntouched);
  return lease;
}

/// Measures what the job needs and waits for it; from then on the batches follow the lease.
void fit(tl::lease::Lease &lease, const tl::data::Dataset &dataset, const tl::extract::Prefix &prefix,
         tl::extract::MemoryOptions memory, tl::extract::ExtractOptions &options) {
  memory.wanted = options.batch;
  memory.threads = options.threads ? options.threads : static_cast<std::size_t>(tl::usable_cores());
  memory.available = lease.budget();
  const tl::extract::MemoryModel model = tl::extract::measure_memory(dataset, prefix, memory);
  options.batch = lease.run(model.demand, library_memory());
  const auto batch = std::make_shared<tl::extract::AdaptiveBatch>(lease, model);
  options.adapt = [batch] { return (*batch)(); };
}

/// Opens the output, runs, and closes it. `lease` is null without a budget.
tl::extract::ExtractReport run(const Arguments &arguments, const std::optional<tl::plan::Plan> &plan,
                               const tl::data::Dataset &dataset, const tl::extract::Prefix &prefix,
                               const tl::shard::ShardMeta &meta, tl::lease::Lease *lease) {
  tl::shard::SinkOptions sink_options;
  sink_options.rows_per_shard = arguments.rows_per_shard;
  sink_options.force = arguments.force;
  tl::extract::ExtractOptions options;
  options.shuffle = arguments.order.empty() ? plan && plan->shuffle : arguments.order == "shuffled";
  options.seed = arguments.seed;
  options.part = arguments.part;
  std::size_t records = dataset.records().size();
  if (arguments.part) {
    sink_options.part = tl::data::part_of(dataset, *arguments.part, options.shuffle, options.seed);
    records = tl::data::only_part(dataset, tl::data::record_order(dataset, false, 0), *arguments.part).size();
  }
  sink_options.expected = static_cast<std::int64_t>(records);
  const auto sink = tl::shard::create_sink(arguments.output, meta, sink_options);
  for (const std::string &note : sink->notes()) tl::cli::warn(note);

  options.batch = arguments.batch ? arguments.batch : plan ? plan->batch : 32;
  options.threads = arguments.threads;
  options.keep_going = arguments.keep_going;
  if (lease)
    fit(*lease, dataset, prefix, {arguments.least_batch, 0, 0, 0, arguments.output, sink_options}, options);
  tl::cli::Progress progress("extracting", records);
  options.progress = [&](std::size_t advanced) { progress.advance(advanced); };
  return tl::extract::extract(dataset, prefix, *sink, options);
}

void prune(const std::string &folder) {
  const tl::shard::PruneReport pruned = tl::shard::prune(folder);
  tl::cli::note(folder + ": pruned " + std::to_string(pruned.rows) + " unused rows, freed " +
                tl::cli::human_bytes(static_cast<double>(pruned.bytes)));
}

/// The command of whoever is at the other end of ssh or of a socket.
std::string requested_command() {
  if (const char *command = std::getenv("SSH_ORIGINAL_COMMAND")) return command;
  if (std::getenv("SSH_CONNECTION")) throw tl::UsageError("no command");
  std::string line;
  char c = 0;
  while (tl::cli::read_full(STDIN_FILENO, &c, 1, "stdin") == 1) {
    if (c == '\n') return line;
    if (line.size() == kMaxRequest) throw tl::UsageError("the request on stdin is longer than 65536 bytes");
    line += c;
  }
  throw tl::UsageError("stdin ends before the end of its first line, which is the request");
}

/// What that asks for, if it is allowed, below the root and within the limits of `server`.
Arguments parse_request(const std::string &command, const Arguments &server) {
  std::vector<std::string> words = tl::cli::split_words(command);
  if (words.empty() || fs::path(words[0]).filename() != "tl-extract")
    throw tl::UsageError("'" + command + "' is another program");
  Arguments asked = server;
  CLI::App app;
  app.set_help_flag("");
  add_request_options(app, asked);
  app.add_flag_callback("-q,--quiet", [] { tl::cli::set_quiet(true); });
  std::reverse(words.begin(), words.end()); // as CLI11 wants them
  words.pop_back();
  try {
    app.parse(words);
  } catch (const CLI::ParseError &error) {
    throw tl::UsageError(error.what());
  }
  asked.seed_given = app.count("--seed") > 0;
  if (asked.plan != "-") throw tl::UsageError("the plan must come from stdin");
  if (asked.output != "-") throw tl::UsageError("the features must go to stdout");
  if (asked.dataset.empty() || asked.dataset == "-") throw tl::UsageError("a data set must be named");
  if (asked.source.split.find('/') != std::string::npos || asked.source.split == "..")
    throw tl::UsageError("--split " + asked.source.split + " is no plain name");
  asked.dataset = tl::cli::path_below(server.root, asked.dataset);
  return asked;
}

Arguments request(const Arguments &server) {
  if (!(server.dataset + server.plan + server.output + server.model + server.cut + server.report).empty())
    throw tl::UsageError("with --restrict, the other side says what to extract; leave out all but "
                         "--memory-budget, --lease-dir, --min-batch, --threads and --quiet");
  if (!budgeted(server)) throw tl::UsageError("--restrict needs --memory-budget SIZE");
  try {
    return parse_request(requested_command(), server);
  } catch (const tl::UsageError &error) {
    throw tl::UsageError(std::string("not allowed here: ") + error.what() + kAllowed);
  }
}

/// The model that will be loaded; "" if none will be.
std::string model_path(const Arguments &arguments, const std::optional<tl::plan::Plan> &plan) {
  if (!plan) return arguments.cut == "files" ? "" : arguments.model;
  if (plan->kind == tl::plan::CutKind::files || plan->cut_name() == "input") return "";
  return arguments.model.empty() ? plan->storage_model_path : arguments.model;
}

tl::ExitCode extract(Arguments &arguments) {
  check(arguments);
  const auto lease = join(arguments);
  if (!arguments.root.empty()) tl::cli::confine(arguments.root, lease->folder());
  std::optional<tl::plan::Plan> plan;
  if (!arguments.plan.empty()) plan = tl::plan::load_plan(arguments.plan);
  if (plan && !arguments.seed_given) arguments.seed = plan->seed;
  arguments.source.seed = arguments.seed;
  at::set_num_threads(arguments.threads > 0 ? static_cast<int>(arguments.threads) : tl::usable_cores());
  const std::string model = model_path(arguments, plan);
  if (!arguments.root.empty() && !model.empty()) arguments.model = tl::cli::path_below(arguments.root, model);
  if (lease) lease->start(tl::own_memory() + tl::extract::loading_memory(model));

  const tl::data::Dataset dataset = tl::data::Dataset::open(arguments.dataset, arguments.source);
  for (const std::string &note : dataset.notes()) tl::cli::note(arguments.dataset + ": " + note);
  const tl::extract::Prefix prefix = make_prefix(arguments, plan, dataset);
  tl::shard::ShardMeta meta = prefix.meta();
  meta.classes = dataset.classes();

  const tl::extract::ExtractReport report = run(arguments, plan, dataset, prefix, meta, lease.get());
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
    if (!arguments.root.empty()) arguments = request(arguments);
    return extract(arguments);
  });
}
