#include "plan/algorithms.h"

#include "cli/error.h"
#include "cli/log.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace tl::plan {

namespace {

using Options = std::vector<Option>;
using Cost = std::function<double(const Option &)>;

[[noreturn]] void nothing_fits(const CostModel &model) {
  const Limits &limits = model.problem().limits;
  throw Error("no cut fits the memory: " + cli::human_bytes(static_cast<double>(limits.storage_memory)) +
              " on the storage side (--memory), " +
              cli::human_bytes(static_cast<double>(limits.compute_memory)) +
              " on the compute side (--compute-memory); raise them, or train with a smaller --batch");
}

/// The feasible option of least cost; of equals the earliest. Null if there is none.
const Option *least(const Options &options, const Cost &cost) {
  const Option *best = nullptr;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const Option &option : options) {
    if (!option.feasible) continue;
    const double c = cost(option);
    if (c < best_cost) {
      best = &option;
      best_cost = c;
    }
  }
  return best;
}

Choice choose_least(const CostModel &model, const Options &options, const Cost &cost) {
  const Option *best = least(options, cost);
  if (!best) nothing_fits(model);
  return {*best, Side::compute};
}

Choice pipelined(const CostModel &model, const Options &options) {
  return choose_least(model, options, [](const Option &option) { return option.predicted.total; });
}

/// No overlap: the tiers of the first epoch run one after the other.
Choice sum(const CostModel &model, const Options &options) {
  const Workload &work = model.problem().workload;
  return choose_least(model, options, [&](const Option &option) {
    const Prediction &p = option.predicted;
    const double first = p.storage + p.link + p.compute;
    return static_cast<double>(work.records) * (first + static_cast<double>(work.epochs - 1) * p.later);
  });
}

bool is_files(const Option &option) { return option.candidate.kind == CutKind::files; }
bool is_pushdown(const Option &option) { return option.candidate.cut.position > 0; }

const Option *files_of(const Options &options) {
  const auto found = std::find_if(options.begin(), options.end(), is_files);
  return found == options.end() ? nullptr : &*found;
}

/// HAPI's estimate of an epoch. An iteration of B records asks the storage side W times for batches
/// that it runs one after the other, then streams S bytes; what does not overlap is the request.
double hapi_epoch(const CostModel &model, const Option &option) {
  const Problem &problem = model.problem();
  const Prediction &p = option.predicted;
  const auto iteration = static_cast<double>(problem.workload.train_batch);
  const double iterations = std::ceil(static_cast<double>(problem.workload.records) / iteration);
  const double wave = std::min(static_cast<double>(option.batch), iteration);
  const double waves = std::ceil(iteration / wave);
  const double stream = waves * wave * p.storage + iteration * p.link;
  const double compute = iteration * p.compute;
  const double serial = problem.link.round_trip;
  return stream + (std::max(stream, compute) + serial) * (iterations - 1) + serial + compute;
}

Choice hapi(const CostModel &model, const Options &options) {
  const auto epoch = [&](const Option &option) { return hapi_epoch(model, option); };
  const Option *best = least(options, [&](const Option &option) {
    return is_pushdown(option) ? epoch(option) : std::numeric_limits<double>::infinity();
  });
  const Option *files = files_of(options);
  if (files && !files->feasible) files = nullptr;
  if (files && (!best || epoch(*files) < epoch(*best))) best = files;
  if (!best) nothing_fits(model);
  return {*best, Side::compute};
}

Choice freeze(const CostModel &model, const Options &options) {
  if (!options.back().feasible) nothing_fits(model);
  return {options.back(), Side::compute};
}

std::int64_t memory_of(const Option &option) {
  return option.predicted.storage_memory + option.predicted.compute_memory;
}

Choice earliest(const CostModel &model, const Options &options) {
  // Options begin with no pushdown: files or the input.
  const std::int64_t memory = memory_of(options.front());
  const auto input = static_cast<double>(model.problem().graph.input().bytes());
  const double second = model.problem().link.bandwidth;
  for (const Option &option : options) {
    const double bytes = option.candidate.bytes;
    const double batches = 100.0 * static_cast<double>(option.batch); // K records
    const bool small = bytes < input && bytes * batches < std::min(input * batches, second);
    if (is_pushdown(option) && option.feasible && small && memory_of(option) < memory)
      return {option, Side::compute};
  }
  return freeze(model, options);
}

Choice storage(const CostModel &model, const Options &) {
  Choice choice{model.all_in_storage(), Side::storage};
  if (!choice.option.feasible) nothing_fits(model);
  return choice;
}

Choice none(const CostModel &model, const Options &options) {
  const Option *files = files_of(options);
  if (!files) throw Error("algorithm 'none' needs to know the data: profile them with tl-profile data");
  if (!files->feasible) nothing_fits(model);
  return {*files, Side::compute};
}

/// The published rules know nothing of codecs.
using Rule = std::function<Choice(const CostModel &, const Options &)>;
Rule plainly(const Rule &rule) {
  return [rule](const CostModel &model, const Options &options) {
    Options plain;
    std::copy_if(options.begin(), options.end(), std::back_inserter(plain),
                 [](const Option &option) { return !option.candidate.variant; });
    return rule(model, plain);
  };
}

} // namespace

const std::vector<Algorithm> &algorithms() {
  static const std::vector<Algorithm> all = {
      {"pipelined", "least total time, the tiers overlapping", pipelined},
      {"sum", "least total time, the tiers one after the other", plainly(sum)},
      {"hapi", "HAPI's pipelined estimate of one epoch", plainly(hapi)},
      {"earliest", "HAPI's first rule: the earliest small cut", plainly(earliest)},
      {"freeze", "every frozen layer beside the storage", plainly(freeze)},
      {"storage", "everything beside the storage, training too", storage},
      {"none", "no pushdown: files cross the link", none},
  };
  return all;
}

const Algorithm &find_algorithm(const std::string &name) {
  std::vector<std::string> names;
  for (const Algorithm &algorithm : algorithms()) {
    if (algorithm.name == name) return algorithm;
    names.push_back(algorithm.name);
  }
  std::string known;
  for (const std::string &each : names) known += (known.empty() ? "" : ", ") + each;
  const std::string hint = json::suggestion(name, names);
  throw UsageError("unknown algorithm '" + name + "'; " + (hint.empty() ? "use one of: " + known : hint));
}

} // namespace tl::plan
