#include "plan/planner.h"

#include "cli/error.h"

#include <algorithm>

namespace tl::plan {

namespace {

const HostProfile &host_of(const Profile &profile) {
  if (!profile.host)
    throw Error(profile.origin + ": has no host section; make it with tl-profile model or tl-profile host");
  return *profile.host;
}

const ModelProfile &model_of(const Profile &profile) {
  if (!profile.model) throw Error(profile.origin + ": has no model section; make it with tl-profile model");
  if (profile.model->measured.batches.empty())
    throw Error(profile.origin + ": the model was not timed; profile it again");
  return *profile.model;
}

/// Both sides must run the same function, else features of one are nonsense to the other.
void check_same(const Request &request) {
  const ModelProfile &storage = model_of(request.storage), &compute = model_of(request.compute);
  const auto output = [](const ModelProfile &model) {
    return model.graph.values[static_cast<std::size_t>(model.graph.output)].hash;
  };
  const std::string files = request.storage.origin + " and " + request.compute.origin + ": ";
  if (parameters_digest(storage.graph) != parameters_digest(compute.graph))
    throw FormatError(files + "profiles of different models (" + storage.path + ", " + compute.path +
                      "); profile the same file on both sides");
  if (storage.graph.input().hash != compute.graph.input().hash)
    throw FormatError(files +
                      "the model was profiled with different preprocessing; use the same on both sides");
  if (output(storage) != output(compute))
    throw FormatError(files + "the models have the same weights but compute something different; "
                              "profile the same file on both sides");
}

std::int64_t classes_of(const Request &request) {
  if (request.classes > 0) return request.classes;
  if (request.storage.data && request.storage.data->classes > 0) return request.storage.data->classes;
  throw UsageError("the number of classes is not in " + request.storage.origin + "; give --classes");
}

Problem make_problem(const Request &request, std::int64_t classes) {
  Problem problem{model_of(request.storage),
                  model_of(request.compute),
                  host_of(request.storage),
                  host_of(request.compute),
                  request.storage.data,
                  request.compute.data,
                  request.link,
                  {},
                  request.workload,
                  request.limits,
                  request.codecs};
  problem.graph = graph::apply_scheme(problem.storage_model.graph, request.scheme, classes);
  Workload &work = problem.workload;
  if (work.records == 0 && problem.storage_data) work.records = problem.storage_data->records;
  if (work.records < 1)
    throw UsageError("the number of records is not in " + request.storage.origin + "; give --records");
  if (work.epochs < 1 || work.train_batch < 1) throw UsageError("epochs and batch must be at least 1");
  if (!(problem.link.bandwidth > 0)) throw UsageError("the link has no bandwidth");
  const auto fill = [](std::int64_t &limit, std::int64_t memory) {
    if (limit < 0) limit = memory / 2;
  };
  fill(problem.limits.storage_memory, problem.storage_host.memory_bytes);
  fill(problem.limits.compute_memory, problem.compute_host.memory_bytes);
  fill(problem.limits.cache_bytes, problem.compute_host.memory_bytes);
  return problem;
}

[[noreturn]] void not_measured(Codec codec, const std::string &where) {
  throw UsageError("the codec " + name_of(codec) + " was not measured " + where +
                   ", or errs there by more than --max-error; tl-profile model measures the codecs");
}

Choice forced(const std::string &cut, const Problem &problem, const std::vector<Option> &options) {
  std::string name = cut;
  if (cut != "files") {
    const graph::Graph &graph = problem.graph;
    name = graph::find_cut(graph, graph::frozen(graph), cut).name(graph);
  }
  const Option *best = nullptr; // of its codecs: the fastest of those that fit, else the first
  for (const Option &option : options) {
    if (option.name != name) continue;
    const bool faster =
        best && option.feasible && (!best->feasible || option.predicted.total < best->predicted.total);
    if (!best || faster) best = &option;
  }
  if (best) return {*best, Side::compute};
  if (cut == "files" && problem.codecs.only)
    throw UsageError("files cross the link as they are; leave out --codec");
  if (problem.codecs.only) not_measured(*problem.codecs.only, "at the cut '" + name + "'");
  throw UsageError("cut 'files' needs to know the data: profile them with tl-profile data");
}

std::vector<Alternative> alternatives(const CostModel &model, const std::vector<Option> &options) {
  std::vector<Alternative> result;
  for (const Option &option : options)
    result.push_back(
        {option.name, option.candidate.codec, option.batch, option.feasible, option.predicted, {}});
  for (const Algorithm &algorithm : algorithms()) {
    try {
      const Choice choice = algorithm.choose(model, options);
      if (choice.train_on == Side::storage) { // another use of the same cut: a row of its own
        const Option &option = choice.option;
        result.push_back({option.name,
                          option.candidate.codec,
                          option.batch,
                          option.feasible,
                          option.predicted,
                          {algorithm.name}});
        continue;
      }
      for (std::size_t i = 0; i < options.size(); ++i)
        if (options[i].name == choice.option.name &&
            options[i].candidate.codec == choice.option.candidate.codec)
          result[i].chosen_by.push_back(algorithm.name);
    } catch (const Error &) { // this rule finds nothing here; only the one asked for must
    }
  }
  return result;
}

/// Makes the problem that of the world as it was observed, if that has drifted from the profiles.
PlanRevision revise(const Request &request, const Algorithm &algorithm, Problem &problem) {
  const CostModel promised(problem);
  const std::vector<Option> options = promised.options();
  const Drift drift = compare(*request.observed, options);
  const Choice before =
      request.cut.empty() ? algorithm.choose(promised, options) : forced(request.cut, problem, options);
  PlanRevision revision;
  revision.storage = drift.storage;
  revision.link = drift.link;
  revision.compute = drift.compute;
  revision.allowed = request.allowed_drift;
  revision.cut = before.option.name;
  revision.codec = name_of(before.option.candidate.codec);
  revision.drifted = drift.largest() > request.allowed_drift;
  if (revision.drifted) apply(drift, problem);
  return revision;
}

void describe_cut(Plan &plan, const Problem &problem, const Candidate &candidate) {
  plan.kind = candidate.kind;
  plan.codec = candidate.codec;
  if (candidate.kind == CutKind::files) return;
  for (const graph::ValueId id : candidate.cut.values) {
    const graph::Value &value = problem.graph.values[static_cast<std::size_t>(id)];
    plan.values.push_back({value.name, value.hash, value.dtype, value.shape});
  }
}

PlanCache describe_cache(const CostModel &model) {
  PlanCache cache;
  for (const graph::ValueId id : model.deepest().values)
    cache.values.push_back(model.problem().graph.values[static_cast<std::size_t>(id)].name);
  cache.bytes_per_record = static_cast<std::int64_t>(model.cache_bytes());
  cache.memory = model.problem().limits.cache_bytes;
  return cache;
}

} // namespace

Plan make_plan(const Request &request) {
  const Algorithm &algorithm = find_algorithm(request.algorithm);
  check_same(request);
  request.codecs.check();
  const std::int64_t classes = classes_of(request);
  Problem problem = make_problem(request, classes);
  std::optional<PlanRevision> revision;
  if (request.observed) revision = revise(request, algorithm, problem);
  const CostModel model(problem);
  const std::vector<Option> options = model.options();
  if (options.empty()) not_measured(*request.codecs.only, "at any cut");
  const Choice choice =
      request.cut.empty() ? algorithm.choose(model, options) : forced(request.cut, problem, options);
  Plan plan;
  plan.model_path = problem.compute_model.path;
  plan.storage_model_path = problem.storage_model.path;
  plan.model_digest = parameters_digest(problem.storage_model.graph);
  plan.input_dtype = problem.graph.input().dtype;
  plan.input_shape = problem.graph.input().shape;
  plan.classes = classes;
  plan.scheme = request.scheme;
  plan.preprocess = problem.storage_model.preprocess;
  describe_cut(plan, problem, choice.option.candidate);
  if (plan.storage_computes()) plan.storage_execution = problem.storage_model.measured.execution;
  plan.compute_execution = problem.compute_model.measured.execution;
  plan.batch = choice.option.batch;
  plan.shuffle = request.shuffle;
  plan.seed = request.seed;
  plan.cache = describe_cache(model);
  plan.train_on = choice.train_on;
  plan.algorithm = request.cut.empty() ? algorithm.name : "cut";
  plan.predicted = choice.option.predicted;
  plan.revision = revision;
  plan.alternatives = alternatives(model, options);
  return plan;
}

} // namespace tl::plan
