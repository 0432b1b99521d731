// What is to be tried: the experiment document (schemas/experiment.schema.json) and the candidates that it
// stands for.
#pragma once

#include "data/preprocess.h"
#include "data/source.h"
#include "graph/scheme.h"
#include "select/search.h"
#include "select/space.h"
#include "train/options/options.h"
#include "json/document.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tl::select {

struct ModelEntry {
  std::string name;                           // in candidates, and in their names
  std::string path;                           // as in the document; relative to the document's folder
  std::string file;                           // path from here
  std::optional<data::Preprocess> preprocess; // none: by the kind of data, as tl-train chooses it
};

/// Bytes that the work may use; nothing: what the program chooses.
struct Budget {
  std::optional<std::int64_t> disk;   // for features that are kept
  std::optional<std::int64_t> memory; // for training
};

/// One candidate, before any model is looked at.
struct Spec {
  std::string place;     // "/candidates/0": for messages
  std::size_t model = 0; // index into Experiment::models
  graph::Scheme scheme;
  train::TrainOptions options; // all of them, with the experiment's metric, validation share and seed
  std::string name;            // "resnet18/layer4/linear/adamw-lr0.001": unique, for people
};

struct Experiment {
  std::string origin; // for messages
  std::vector<ModelEntry> models;
  train::Monitor metric = train::Monitor::accuracy;
  double validation = 0.2;
  std::uint64_t seed = 0; // of candidates that give none, and of a limited data set
  data::SourceOptions data;
  Budget budget;
  SearchSettings search;
  std::vector<Spec> candidates; // a grid: in the order of the document, the last listed field changing first
};

/// Fields of a candidate that are lists are grids, and ranges are drawn from (space.h); fields that are left
/// out come from "defaults", then from the program: every model, a linear head on what the old classifier
/// reads. A search by rungs gives every candidate its max_epochs. `folder`: where relative paths start.
/// Throws FormatError "origin: /place: ..." for unknown keys (with the nearest known one), values out of
/// range, contradictions, and more than kMaxCandidates.
Experiment experiment_from_json(const json::Value &document, const std::string &origin,
                                const std::string &folder);
/// Reads a file; "-" is stdin, with paths relative to the current folder.
Experiment load_experiment(const std::string &path);

} // namespace tl::select
