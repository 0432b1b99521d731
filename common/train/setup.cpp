#include "train/setup.h"

#include "cli/error.h"
#include "extract/input.h"
#include "plan/plan.h"
#include "shard/folder.h"

#include <filesystem>

namespace tl::train {

namespace {

std::string name_of_input(const std::string &path) { return path == "-" ? "stdin" : path; }

/// Where the features of `meta` stand in the network.
std::string cut_of(const shard::ShardMeta &meta) {
  std::string name;
  for (const shard::ValueInfo &value : meta.values) name += (name.empty() ? "" : "+") + value.name;
  return name;
}

/// Whether features are what the plan sends. `planned`: where they stand in the network.
bool made_for(const plan::Plan &plan, const std::string &planned, const shard::ShardMeta &meta) {
  const bool computed = meta.payload == shard::Payload::values;
  return computed == (plan.kind == plan::CutKind::values) && (!computed || cut_of(meta) == planned);
}

/// True if `folder` holds the whole of such features.
bool holds(const std::string &folder, const plan::Plan &plan, const std::string &planned) {
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed)) return false;
  const std::optional<shard::FolderIndex> index = shard::read_index(folder);
  return index && made_for(plan, planned, index->meta);
}

/// A plan for exact features must not be given rounded ones.
void check_rounding(const shard::ShardMeta &meta, const plan::Plan &plan, const std::string &origin) {
  if (meta.precision != "fp32" && graph::exact(plan.storage_execution))
    throw FormatError(origin + ": its values were computed in " + meta.precision +
                      ", the plan's are exact; extract with this plan, or make one from a profile with that");
  const codec::Codec have{codec::number_from_name(meta.codec), false};
  if (have.exact() || have.number == plan.codec.number) return;
  throw FormatError(origin + ": its values are written as " + meta.codec + ", the plan's as " +
                    std::string(name_of(plan.codec.number)) +
                    "; extract with this plan, or make one for that codec");
}

void check_classes(const shard::ShardMeta &meta, std::int64_t classes, const std::string &origin,
                   const std::string &plan) {
  const auto have = static_cast<std::int64_t>(meta.classes.size());
  if (have == 0) throw FormatError(origin + ": its records have no labels; training needs classes");
  if (have != classes)
    throw FormatError(origin + ": has " + std::to_string(have) + " classes, " + plan + " is for " +
                      std::to_string(classes) + "; make a plan for these classes");
}

} // namespace

Setup setup_from_plan(const PlanInput &input, std::uint64_t seed) {
  const plan::Plan plan = plan::load_plan(input.plan);
  const std::string origin = name_of_input(input.plan), features = name_of_input(input.features);
  Setup setup;
  setup.preprocess = data::preprocess_from_json(plan.preprocess, origin);
  setup.scheme = plan.scheme;
  setup.plan = plan.digest();
  setup.cache_bytes = plan.cache.memory;
  const std::string path = input.model.empty() ? plan.model_path : input.model;
  const model::Model pretrained =
      model::load_model(path, {plan.input_dtype, plan.input_shape}, setup.preprocess.digest());
  if (plan::parameters_digest(pretrained.graph) != plan.model_digest)
    throw FormatError(path + ": its weights are not those that " + origin + " was made for (parameters " +
                      plan::parameters_digest(pretrained.graph).hex() + ", in the plan " +
                      plan.model_digest.hex() + "); give the right --model, or make the plan anew");
  // Before the features are opened, so that an impossible scheme is refused at once.
  const std::string planned = plan.kind == plan::CutKind::files ? "input" : plan.cut_name();
  setup.network = make_network(pretrained, plan.scheme, plan.classes, seed, planned, plan.compute_execution);

  const bool kept = input.resume && input.features == "-" && holds(input.source.keep, plan, planned);
  if (kept)
    setup.notes.push_back("the earlier run has kept the whole stream in " + input.source.keep +
                          "; stdin is not read");
  std::unique_ptr<shard::ShardSource> shards = shard::open_shards(kept ? input.source.keep : input.features);
  const shard::ShardMeta meta = shards->meta();
  check_classes(meta, plan.classes, features, origin);
  setup.cut = planned;
  setup.sent = plan.cut_name();
  setup.codec = name_of(plan.codec);
  const bool computed = meta.payload == shard::Payload::values;
  if (!made_for(plan, planned, meta))
    throw FormatError(features + ": holds " +
                      (computed ? "the cut " + cut_of(meta) : "the records as they are stored") + ", " +
                      origin + " cuts at " + plan.cut_name() + "; extract with this plan");
  if (computed) check_features(setup.network, meta, features);
  if (computed) check_rounding(meta, plan, features);
  setup.classes = meta.classes;
  setup.source = shard_source(std::move(shards), setup.preprocess, input.source);
  return setup;
}

Setup setup_from_dataset(const DatasetInput &input, std::uint64_t seed) {
  data::Dataset dataset = data::Dataset::open(input.data, input.listing);
  Setup setup;
  for (const std::string &note : dataset.notes()) setup.notes.push_back(input.data + ": " + note);
  setup.classes = dataset.classes();
  if (setup.classes.empty())
    throw Error(input.data +
                ": its records have no labels; training needs classes (one sub-folder each, or a "
                "list with labels)");
  setup.preprocess = input.preprocess.empty() ? extract::default_preprocess(dataset)
                                              : data::parse_preprocess(input.preprocess);
  setup.scheme = input.scheme;
  setup.cut = "input";
  const model::Model pretrained = model::load_model(
      input.model, extract::input_spec(setup.preprocess, dataset), setup.preprocess.digest());
  setup.network = make_network(pretrained, input.scheme, static_cast<std::int64_t>(setup.classes.size()),
                               seed, setup.cut);
  setup.source = dataset_source(std::move(dataset), setup.preprocess, seed, input.source);
  return setup;
}

} // namespace tl::train
