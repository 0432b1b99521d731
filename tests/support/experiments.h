// A small experiment: tiny networks over 8x8 pictures, candidates by JSON.
#pragma once

#include "select/planner.h"
#include "select/select.h"
#include "support/files.h"
#include "support/models.h"
#include "support/photos.h"

#include <string>
#include <vector>

namespace tl::test {

constexpr const char *kSmallPictures = "raw,resize=8x8";

inline json::Value parsed(const std::string &text) { return json::parse(text, "the test"); }

/// Three classes of pictures, `each` of every class, and a folder for models and runs.
class Workshop {
public:
  explicit Workshop(int each = 12) {
    unsigned seed = 1;
    for (const char *name : {"cat", "dog", "owl"})
      for (int i = 0; i < each; ++i) photos.add(std::string(name) + "/" + std::to_string(i) + ".ppm", seed++);
    add_model("net", {});
  }

  Photos photos;
  TempFolder folder;
  json::Value models = json::Value::array();

  std::string runs() const { return folder.path("runs"); }
  void add_model(const std::string &name, const ConvNet &net) {
    save(conv_net(net), folder.path(name + ".pt"));
    models.push_back({{"name", name}, {"path", name + ".pt"}, {"preprocess", kSmallPictures}});
  }

  /// `candidates`: JSON text of the list.
  json::Value document(const std::string &candidates) const {
    return {{"format", "tl-experiment"},
            {"version", 1},
            {"models", models},
            {"defaults", {{"epochs", 3}, {"batch", 8}, {"lr", 0.01}}},
            {"candidates", parsed(candidates)}};
  }
  select::Experiment experiment(const char *candidates) const { return experiment(document(candidates)); }
  select::Experiment experiment(const json::Value &document) const {
    return select::experiment_from_json(document, "the experiment", folder.path());
  }
  data::Dataset dataset(const select::Experiment &of) const {
    return data::Dataset::open(photos.root(), of.data);
  }

  select::Selection run(const char *candidates, bool keep_going = false,
                        const select::SelectEvents &events = {}) const {
    return run(document(candidates), keep_going, events);
  }
  select::Selection run(const json::Value &document, bool keep_going = false,
                        const select::SelectEvents &events = {}) const {
    const select::Experiment wanted = experiment(document);
    const data::Dataset records = dataset(wanted);
    return select::select(wanted, records, options(keep_going), events);
  }
  select::Selection run(const char *candidates, const select::SelectOptions &options,
                        const select::SelectEvents &events = {}) const {
    const select::Experiment wanted = experiment(candidates);
    const data::Dataset records = dataset(wanted);
    return select::select(wanted, records, options, events);
  }
  /// Everything that candidates read is kept, so that what is on disk does not depend on measured times.
  select::SelectOptions options(bool keep_going = false) const {
    select::SelectOptions options;
    options.runs = runs();
    options.threads = 2;
    options.keep_going = keep_going;
    options.keep = reuse::Keep::all;
    return options;
  }
  select::Candidates resolve(const char *candidates) const {
    const select::Experiment wanted = experiment(candidates);
    return select::resolve(wanted, dataset(wanted));
  }
};

/// Made up: each value takes a millisecond, and so does a record; a row takes next to nothing.
inline select::Costs made_up_costs(const select::SharedGraphs &graphs,
                                   const std::vector<select::Candidate> &candidates) {
  select::Costs costs;
  costs.threads = 1;
  costs.load = costs.write = {1e-6, 1e-9};
  for (const select::SharedGraph &graph : graphs.graphs) {
    costs.inputs[graph.input()] = {1e-3, 1e-6, 1000};
    for (const graph::Value &value : graph.graph().values) costs.values[value.hash] = 1e-3;
  }
  for (const select::Candidate &candidate : candidates) costs.training[candidate.id] = {1e-3, 1000, 100};
  return costs;
}

inline std::vector<std::string> names_of(const select::Experiment &experiment) {
  std::vector<std::string> names;
  for (const select::Spec &spec : experiment.candidates) names.push_back(spec.name);
  return names;
}

} // namespace tl::test
