#include "select/candidate.h"

#include "cli/error.h"
#include "extract/input.h"
#include "model/program.h"
#include "plan/plan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tl::select {

namespace {

/// Hash of what a model computes and how its parameters are called: all that decides what candidates of
/// it do. Not its path, and not its name in the experiment.
Digest identity(const model::Model &model) {
  return Hasher()
      .add("tl-model 1")
      .add(plan::parameters_digest(model.graph))
      .add(model.graph.values[static_cast<std::size_t>(model.graph.output)].hash)
      .digest();
}

std::string candidate_id(const Digest &model, const Spec &spec) {
  const Digest digest = Hasher()
                            .add("tl-candidate 1")
                            .add(model)
                            .add(json::compact(graph::to_json(spec.scheme)))
                            .add(json::compact(train::to_json(spec.options)))
                            .digest();
  return digest.hex().substr(0, 16);
}

std::vector<graph::ValueId> training_inputs(const graph::Graph &graph) {
  std::vector<graph::ValueId> ids = graph::deepest_cut(graph, graph::frozen(graph)).values;
  std::stable_sort(ids.begin(), ids.end(), [&](graph::ValueId a, graph::ValueId b) {
    return graph.values[static_cast<std::size_t>(a)].hash < graph.values[static_cast<std::size_t>(b)].hash;
  });
  return ids;
}

class Resolver {
public:
  Resolver(const Experiment &experiment, const data::Dataset &dataset)
      : experiment_(experiment), dataset_(dataset),
        classes_(static_cast<std::int64_t>(dataset.classes().size())), models_(experiment.models.size()) {}

  Candidates run() {
    Candidates result;
    std::map<std::string, std::string> names; // by id
    for (const Spec &spec : experiment_.candidates) {
      const Loaded &loaded = load(spec.model);
      Candidate candidate{candidate_id(loaded.identity, spec), spec, prepare(spec, loaded)};
      const auto [found, added] = names.emplace(candidate.id, spec.name);
      if (added)
        result.all.push_back(std::move(candidate));
      else
        result.notes.push_back("candidate " + spec.name + " is the same as " + found->second +
                               "; it is tried once");
    }
    return result;
  }

private:
  struct Loaded {
    model::Model model;
    data::Preprocess preprocess;
    Digest identity;
  };

  const Loaded &load(std::size_t index) {
    std::optional<Loaded> &slot = models_[index];
    if (slot) return *slot;
    const ModelEntry &entry = experiment_.models[index];
    try {
      Loaded loaded;
      loaded.preprocess = entry.preprocess ? *entry.preprocess : extract::default_preprocess(dataset_);
      const model::InputSpec input = extract::input_spec(loaded.preprocess, dataset_);
      loaded.model = model::load_model(entry.file, input, loaded.preprocess.digest());
      loaded.identity = identity(loaded.model);
      slot = std::move(loaded);
    } catch (const UsageError &error) {
      throw FormatError(experiment_.origin + ": /models/" + std::to_string(index) + ": " + error.what());
    }
    return *slot;
  }

  std::shared_ptr<const Prepared> prepare(const Spec &spec, const Loaded &loaded) {
    // A batch of one matters to a batch-norm that trains, so it is part of what is checked once.
    const auto key =
        std::make_tuple(spec.model, json::compact(graph::to_json(spec.scheme)), spec.options.batch == 1);
    std::shared_ptr<const Prepared> &slot = prepared_[key];
    if (slot) return slot;
    try {
      auto prepared = std::make_shared<Prepared>();
      prepared->model = model::apply_scheme(loaded.model, spec.scheme, classes_);
      prepared->preprocess = loaded.preprocess;
      prepared->inputs = training_inputs(prepared->model.graph);
      check_trainable(*prepared, spec.options.batch);
      slot = std::move(prepared);
    } catch (const Error &error) {
      throw FormatError(experiment_.origin + ": " + spec.place + " (" + spec.name + "): " + error.what());
    }
    return slot;
  }

  /// Finds out before any record is read, not after hours of extraction.
  static void check_trainable(const Prepared &prepared, std::int64_t batch) {
    model::Model drawn = prepared.model;
    model::initialise(drawn, 0);
    const model::TrainedProgram program(drawn, prepared.inputs);
    if (program.needs_batch_of_two() && batch < 2)
      throw UsageError("a batch of 1 cannot train a batch-norm layer: give a batch of 2 or more");
  }

  const Experiment &experiment_;
  const data::Dataset &dataset_;
  std::int64_t classes_;
  std::vector<std::optional<Loaded>> models_;
  std::map<std::tuple<std::size_t, std::string, bool>, std::shared_ptr<const Prepared>> prepared_;
};

} // namespace

Candidates resolve(const Experiment &experiment, const data::Dataset &dataset) {
  return Resolver(experiment, dataset).run();
}

} // namespace tl::select
