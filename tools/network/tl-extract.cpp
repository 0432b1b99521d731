// What tl-extract becomes once its command line is understood, and there is room for it.
#include "cli/confine.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/progress.h"
#include "extract/extract.h"
#include "extract/input.h"
#include "extract/memory.h"
#include "lease/lease.h"
#include "network/start.h"
#include "options/extract.h"
#include "runtime/allocation.h"
#include "runtime/host.h"
#include "runtime/memory_use.h"
#include "shard/folder.h"

#include <memory>

namespace {

using Arguments = tl::tools::ExtractArguments;

constexpr std::int64_t kUntouched = std::int64_t{1} << 30; // bytes of stacks and heaps that no thread gets to

/// What all processes that run this program use together, and a little for what they have yet to touch.
std::int64_t library_memory() { return tl::library_memory() / 8 * 9; }

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
  tl::graph::Execution execution = tl::graph::Execution::blocked;
  if (!arguments.execution.empty()) execution = tl::graph::execution_from_name(arguments.execution);
  return {model, tl::graph::find_cut(model.graph, all, arguments.cut), preprocess, codec, execution};
}

void print_notes(const tl::extract::ExtractReport &report) {
  for (const tl::data::RecordNote &record : report.warned) tl::cli::warn(record.id + ": " + record.reason);
  for (const tl::data::RecordNote &record : report.skipped)
    tl::cli::warn("skipped " + record.id + ": " + record.reason);
  for (const std::string &line : tl::extract::summary(report)) tl::cli::note(line);
}

/// Among those who share the memory of this host, where the program that this one was before has joined them.
std::unique_ptr<tl::lease::Lease> join(const Arguments &arguments) {
  if (!budgeted(arguments)) return nullptr;
  tl::lease::Options options = lease_options(arguments);
  options.idle = tl::own_memory();
  options.shared = library_memory();
  auto lease = tl::lease::Lease::resume(options);
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

/// The model that will be loaded; "" if none will be.
std::string model_path(const Arguments &arguments, const std::optional<tl::plan::Plan> &plan) {
  if (!plan) return arguments.cut == "files" ? "" : arguments.model;
  if (!plan->storage_computes()) return "";
  return arguments.model.empty() ? plan->storage_model_path : arguments.model;
}

tl::ExitCode extract(Arguments arguments) {
  const auto lease = join(arguments);
  if (!arguments.root.empty()) tl::cli::confine(arguments.root, lease->folder());
  std::optional<tl::plan::Plan> plan;
  if (!arguments.plan.empty()) plan = tl::plan::load_plan(arguments.plan);
  if (plan && !arguments.seed_given) arguments.seed = plan->seed;
  arguments.source.seed = arguments.seed;
  tl::tools::use_threads(arguments.threads);
  const std::string model = model_path(arguments, plan);
  if (!arguments.root.empty() && !model.empty()) arguments.model = tl::cli::path_below(arguments.root, model);
  if (lease) lease->start(tl::own_memory() + tl::extract::loading_memory(model));

  const tl::data::Dataset dataset = tl::tools::open_dataset(arguments.dataset, arguments.source);
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
  tl::keep_freed_memory();
  tl::tools::ExtractCommand command;
  return tl::cli::run(command.app, argc, argv, [&] { return extract(command.arguments()); });
}
