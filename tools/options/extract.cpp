#include "options/extract.h"

#include "cli/confine.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/words.h"
#include "codec/codec.h"
#include "graph/execution.h"
#include "object/url.h"
#include "options/dataset.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace tl::tools {

namespace fs = std::filesystem;

namespace {

constexpr const char *kExtractExamples =
    "  tl-extract --plan plan.json photos/ -o features/\n"
    "  ssh storage tl-extract --plan - /photos -o - < plan.json | tl-train --plan plan.json - -o run/\n"
    "  tl-extract --model resnet18.pt --cut layer3 --preprocess imagenet photos/ -o layer3/\n"
    "  tl-extract --plan plan.json photos/ -o features/ --memory-budget 4G --lease-dir leases/";

constexpr const char *kAllowed =
    "; allowed is: tl-extract --plan - DATASET -o - (--data-format --missing --classes "
    "--limit --split --batch --order --seed --keep-going --quiet)";
constexpr std::size_t kMaxRequest = 65536; // bytes

/// What others may ask for, too.
void add_request_options(CLI::App &app, ExtractArguments &arguments) {
  app.add_option(
         "dataset", arguments.dataset,
         "Folder with a sub-folder per class, CSV or list of paths, tar, .safetensors, IDX; - for a list "
         "or tar on stdin; of an object store: s3:// or swift://")
      ->type_name("DATASET");
  add_dataset_options(app, arguments.source);
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

std::vector<std::string> execution_names() {
  std::vector<std::string> names;
  for (const graph::Execution execution : graph::kExecutions) names.emplace_back(name_of(execution));
  return names;
}

void add_options(CLI::App &app, ExtractArguments &arguments) {
  add_request_options(app, arguments);
  app.add_option("--model", arguments.model, "TorchScript file (default: the plan's)")->type_name("FILE");
  app.add_option("--cut", arguments.cut, "Without a plan: values joined by '+', 'input', or 'files'")
      ->type_name("NAME");
  app.add_option("--codec", arguments.codec,
                 "Without a plan: how values are written (default: fp32; u8 for pictures at 'input')")
      ->check(CLI::IsMember(codec::names()));
  app.add_option("--preprocess", arguments.preprocess,
                 "Without a plan: preset, settings, or JSON file (default: by the data)")
      ->type_name("HOW");
  app.add_option("--execution", arguments.execution,
                 "Without a plan: how layers are run; bf16 rounds features (default: blocked)")
      ->check(CLI::IsMember(execution_names()));
  app.add_option("--threads", arguments.threads, "Threads for decoding and for the network (default: cores)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rows-per-shard", arguments.rows_per_shard, "At most, in a folder's shard")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--partition", [&](const std::string &text) { arguments.part = shard::parse_partition(text); },
         "Only part I of N, while others extract the rest into the same folder")
      ->type_name("I/N");
  app.add_flag("--prune", arguments.prune, "Remove features that the data set no longer uses");
  app.add_flag("--force", arguments.force, "Replace features of another model, cut or preprocessing");
  app.add_option("--json", arguments.report, "Write a report here")->type_name("FILE");
  app.add_option("--memory-budget", arguments.memory_budget,
                 "Memory that all jobs of this host share; batches are adapted to it")
      ->transform(cli::size_in_bytes());
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

bool lies_inside(const std::string &output, const std::string &dataset) {
  std::error_code failed;
  if (object::is_url(output) && object::is_url(dataset)) {
    const object::Url inner = object::parse_url(output), outer = object::parse_url(dataset);
    const std::string prefix = object::as_folder(outer.key);
    return inner.scheme == outer.scheme && inner.bucket == outer.bucket &&
           object::as_folder(inner.key).compare(0, prefix.size(), prefix) == 0;
  }
  if (!fs::is_directory(dataset, failed) || output == "-" || object::is_url(output)) return false;
  const std::string inside =
      fs::weakly_canonical(output, failed).lexically_relative(fs::canonical(dataset, failed)).string();
  return !failed && !inside.empty() && inside.compare(0, 2, "..") != 0;
}

void check(const ExtractArguments &arguments) {
  if (arguments.dataset.empty()) throw UsageError("which records? give a DATASET (see tl-extract --help)");
  if (arguments.output.empty()) throw UsageError("where to? give -o PATH, or -o - for a stream on stdout");
  const bool planned = !arguments.plan.empty();
  if (planned && !(arguments.cut + arguments.codec + arguments.preprocess + arguments.execution).empty())
    throw UsageError(
        "the plan says where to cut, in which codec, how to preprocess and how to run layers; leave "
        "out --cut, --codec, --preprocess and --execution");
  if (!planned && arguments.cut.empty())
    throw UsageError("what is to be extracted? give --plan FILE, or --model FILE --cut NAME");
  if (!planned && arguments.cut != "files" && arguments.model.empty())
    throw UsageError("without a plan, --cut " + arguments.cut + " needs --model FILE");
  if (!planned && arguments.cut == "files" &&
      !(arguments.model.empty() && arguments.codec.empty() && arguments.preprocess.empty()))
    throw UsageError(
        "--cut files ships the records as they are; leave out --model, --codec and --preprocess");
  if (arguments.plan == "-" && arguments.dataset == "-")
    throw UsageError("the plan and the data set cannot both come from stdin");
  if (arguments.output == "-" && arguments.report == "-")
    throw UsageError("the features and the report cannot both go to stdout");
  const bool folder = arguments.output != "-" && fs::path(arguments.output).extension() != ".safetensors";
  if (arguments.prune && !folder) throw UsageError("--prune is for a folder of shards");
  if (arguments.part && (arguments.prune || arguments.force))
    throw UsageError("--force and --prune are for the whole folder; leave out --partition");
  // The next run would take the shards for records.
  if (lies_inside(arguments.output, arguments.dataset))
    throw UsageError(arguments.output + ": is inside the data set " + arguments.dataset +
                     "; choose a place outside");
}

/// The command of whoever is at the other end of ssh or of a socket.
std::string requested_command() {
  if (const char *command = std::getenv("SSH_ORIGINAL_COMMAND")) return command;
  if (std::getenv("SSH_CONNECTION")) throw UsageError("no command");
  std::string line;
  char c = 0;
  while (cli::read_full(STDIN_FILENO, &c, 1, "stdin") == 1) {
    if (c != '\n') {
      if (line.size() == kMaxRequest) throw UsageError("the request on stdin is longer than 65536 bytes");
      line += c;
      continue;
    }
    if (setenv("SSH_ORIGINAL_COMMAND", line.c_str(), 1) != 0) throw SystemError("keep the request", errno);
    return line;
  }
  throw UsageError("stdin ends before the end of its first line, which is the request");
}

/// What that asks for, if it is allowed, below the root and within the limits of `server`.
ExtractArguments parse_request(const std::string &command, const ExtractArguments &server) {
  std::vector<std::string> words = cli::split_words(command);
  if (words.empty() || fs::path(words[0]).filename() != "tl-extract")
    throw UsageError("'" + command + "' is another program");
  ExtractArguments asked = server;
  CLI::App app;
  app.set_help_flag("");
  add_request_options(app, asked);
  app.add_flag_callback("-q,--quiet", [] { cli::set_quiet(true); });
  std::reverse(words.begin(), words.end()); // as CLI11 wants them
  words.pop_back();
  try {
    app.parse(words);
  } catch (const CLI::ParseError &error) {
    throw UsageError(error.what());
  }
  asked.seed_given = app.count("--seed") > 0;
  if (asked.plan != "-") throw UsageError("the plan must come from stdin");
  if (asked.output != "-") throw UsageError("the features must go to stdout");
  if (asked.dataset.empty() || asked.dataset == "-") throw UsageError("a data set must be named");
  if (asked.source.split.find('/') != std::string::npos || asked.source.split == "..")
    throw UsageError("--split " + asked.source.split + " is no plain name");
  asked.dataset = cli::path_below(server.root, asked.dataset);
  return asked;
}

ExtractArguments request(const ExtractArguments &server) {
  if (!(server.dataset + server.plan + server.output + server.model + server.cut + server.report).empty())
    throw UsageError("with --restrict, the other side says what to extract; leave out all but "
                     "--memory-budget, --lease-dir, --min-batch, --threads and --quiet");
  if (!budgeted(server)) throw UsageError("--restrict needs --memory-budget SIZE");
  try {
    return parse_request(requested_command(), server);
  } catch (const UsageError &error) {
    throw UsageError(std::string("not allowed here: ") + error.what() + kAllowed);
  }
}

} // namespace

bool budgeted(const ExtractArguments &arguments) {
  return arguments.memory_budget > 0 || !arguments.lease_dir.empty();
}

lease::Options lease_options(const ExtractArguments &arguments) {
  lease::Options options;
  options.folder = arguments.lease_dir.empty() ? lease::default_folder() : arguments.lease_dir;
  options.budget = arguments.memory_budget;
  options.output_watched = arguments.output == "-";
  return options;
}

ExtractCommand::ExtractCommand()
    : app("tl-extract", "Computes the features that a plan asks for, or ships the records themselves.",
          kExtractExamples) {
  add_options(app, given_);
}

ExtractArguments ExtractCommand::arguments() const {
  ExtractArguments arguments = given_;
  arguments.seed_given = app.count("--seed") > 0;
  if (!arguments.root.empty()) arguments = request(arguments);
  check(arguments);
  return arguments;
}

} // namespace tl::tools
