// tl-split: profiles and a scheme in, a plan out.
#include "cli/app.h"
#include "cli/io.h"
#include "cli/log.h"
#include "plan/link.h"
#include "plan/planner.h"

#include <cstdio>

namespace {

constexpr const char *kExamples =
    "  tl-split --storage there.json --compute here.json --link 'ssh storage' --head linear > plan.json\n"
    "  tl-split --storage there.json --link 100Mbit/s,5ms --head mlp:256 --train '^layer4' --explain\n"
    "  tl-split --storage there.json --link link.json --head linear --cut layer3 -o plan.json";

struct Arguments {
  std::string storage, compute, link, head, adapters, pool = "auto", output = "-";
  std::string observed, codec;
  bool listing_order = false, explain = false, json = false;
  tl::plan::Request request;
};

std::string algorithm_help() {
  std::string text = "Rule that chooses the cut:";
  for (const tl::plan::Algorithm &algorithm : tl::plan::algorithms())
    text += "\n  " + algorithm.name + ": " + algorithm.summary;
  return text;
}

void add_choice_options(CLI::App &app, Arguments &arguments) {
  tl::plan::Request &request = arguments.request;
  app.add_option("--algorithm", request.algorithm, algorithm_help())
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--cut", request.cut, "Cut here instead: values joined by '+', or 'files'")
      ->type_name("NAME");
  app.add_flag("--allow-lossy", request.codecs.allow_lossy,
               "Also weigh codecs that change the features: bf16, int8");
  app.add_option("--max-error", request.codecs.max_error,
                 "Weigh those whose relative error was measured to be at most this: 0.01")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("ERROR");
  app.add_option("--codec", arguments.codec, "Only this codec")->check(CLI::IsMember(tl::codec::names()));
}

void add_options(CLI::App &app, Arguments &arguments) {
  tl::plan::Request &request = arguments.request;
  const CLI::Validator size = tl::cli::size_in_bytes();
  app.add_option("--storage", arguments.storage, "Profile of the storage side, with its data")
      ->required()
      ->type_name("FILE");
  app.add_option("--compute", arguments.compute, "Profile of the compute side (default: the storage side's)")
      ->type_name("FILE");
  app.add_option("--link", arguments.link,
                 "The link: 100Mbit/s[,5ms], a profile with a link, or a command to measure it through "
                 "(default: the link in a profile)")
      ->type_name("LINK");
  app.add_option("--head", arguments.head, "New classifier: linear, or mlp:H[,H...]")->type_name("HEAD");
  app.add_option("--train", request.scheme.train, "Also train parameters whose name matches")
      ->type_name("REGEX");
  app.add_option("--unfreeze", request.scheme.unfreeze, "Also train the last blocks of the model")
      ->check(CLI::Range(1, 1048576))
      ->type_name("BLOCKS");
  app.add_option("--adapters", arguments.adapters,
                 "Train bottleneck adapters behind every block; WIDTH:BLOCKS, behind the last ones")
      ->type_name("WIDTH");
  app.add_option(
         "--features", request.scheme.features,
         "Value that the head reads, or several: A+B, sum:A+B (default: what the old classifier reads)")
      ->type_name("VALUE");
  app.add_option("--pool", arguments.pool, "How that value becomes a vector: auto, none, mean, class-token")
      ->type_name("HOW")
      ->capture_default_str();
  app.add_option("--classes", request.classes, "Classes (default: as in the data)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--records", request.workload.records, "Records (default: as in the data)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 52));
  app.add_option("--epochs", request.workload.epochs, "Epochs of training")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--batch", request.workload.train_batch, "Records in a training step")
      ->check(CLI::Range(1, 1048576))
      ->capture_default_str();
  add_choice_options(app, arguments);
  app.add_option("--memory", request.limits.storage_memory,
                 "For the prefix (default: half of the storage side's)")
      ->transform(size);
  app.add_option("--compute-memory", request.limits.compute_memory,
                 "For training (default: half of the compute side's)")
      ->transform(size);
  app.add_option("--cache", request.limits.cache_bytes,
                 "For features kept in memory between epochs (default: half of the compute side's)")
      ->transform(size);
  app.add_option("--observed", arguments.observed,
                 "Metrics of a run by an earlier plan: plan for what it saw, if that has drifted")
      ->type_name("FILE");
  app.add_option("--drift", request.allowed_drift, "Change of a tier's speed that is still no drift")
      ->check(CLI::Range(1.0, 1000.0))
      ->type_name("FACTOR")
      ->capture_default_str();
  app.add_option("--seed", request.seed, "Of the order of the records")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 52));
  app.add_flag("--listing-order", arguments.listing_order,
               "Extract records as they are listed, not shuffled");
  app.add_flag("--explain", arguments.explain, "Print the table of all cuts on stderr");
  app.add_flag("--json", arguments.json, "Write the plan on one line");
  app.add_option("-o,--output", arguments.output, "Where the plan goes")
      ->type_name("FILE")
      ->capture_default_str();
}

tl::plan::LinkProfile choose_link(const Arguments &arguments) {
  if (!arguments.link.empty()) return tl::plan::resolve_link(arguments.link);
  const tl::plan::Request &request = arguments.request;
  if (request.compute.link) return *request.compute.link;
  if (request.storage.link) return *request.storage.link;
  throw tl::UsageError("the speed of the link is unknown; give --link, for example --link 100Mbit/s,5ms");
}

tl::ExitCode split(Arguments &arguments) {
  tl::plan::Request &request = arguments.request;
  if (arguments.storage == arguments.compute) arguments.compute.clear();
  if ((arguments.storage == "-") + (arguments.compute == "-") + (arguments.link == "-") +
          (arguments.observed == "-") >
      1)
    throw tl::UsageError("only one document can come from stdin");
  if (!arguments.head.empty()) request.scheme.head = tl::graph::Head::parse(arguments.head);
  if (!arguments.adapters.empty()) request.scheme.adapters = tl::graph::Adapters::parse(arguments.adapters);
  request.scheme.pool = tl::graph::pool_from_name(arguments.pool);
  if (!arguments.codec.empty()) request.codecs.only = tl::codec::codec_from_name(arguments.codec);
  request.shuffle = !arguments.listing_order;
  request.storage = tl::plan::load_profile(arguments.storage);
  request.compute = arguments.compute.empty() ? request.storage : tl::plan::load_profile(arguments.compute);
  request.link = choose_link(arguments);
  const auto &measured = request.storage.model;
  if (request.codecs.max_error && measured && measured->codecs && !measured->codecs->real)
    tl::cli::warn(request.storage.origin +
                  ": the errors of codecs were measured on random records; profile the "
                  "model with --data for those of real ones");
  if (!arguments.observed.empty()) {
    request.observed = tl::plan::load_observed(arguments.observed);
    if (!request.observed)
      tl::cli::note(arguments.observed +
                    ": tells nothing of the storage side and the link, which only a run that "
                    "reads a pipe of more than one shard sees; the plan is the profiles'");
  }
  const tl::plan::Plan plan = tl::plan::make_plan(request);
  if (plan.revision) tl::cli::note(tl::plan::describe(*plan.revision, plan));
  const tl::json::Value document = to_json(plan);
  tl::json::validate(document, "plan", "the plan");
  if (arguments.explain) std::fputs(tl::plan::explain(plan).c_str(), stderr);
  tl::cli::write_output(arguments.output,
                        arguments.json ? tl::json::compact(document) + "\n" : tl::json::pretty(document));
  return tl::ExitCode::ok;
}

} // namespace

int main(int argc, char **argv) {
  tl::cli::App app(
      "tl-split", "Decides where a network is cut between the storage side and the compute side.", kExamples);
  Arguments arguments;
  add_options(app, arguments);
  return tl::cli::run(app, argc, argv, [&] { return split(arguments); });
}
