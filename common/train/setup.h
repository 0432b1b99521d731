// From what a user names (a plan and features, or a model and a dataset) to what is trained on what.
#pragma once

#include "data/source.h"
#include "train/network.h"
#include "train/sources.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::train {

struct Setup {
  Network network;
  std::unique_ptr<RecordSource> source;
  std::vector<std::string> classes; // names, in bytes
  data::Preprocess preprocess;
  graph::Scheme scheme;
  std::string cut;                         // where the records arrive
  std::string sent, codec;                 // what crosses and how, in the plan's words; empty without one
  Digest plan;                             // zero without one
  std::optional<std::int64_t> cache_bytes; // the plan's, for features between epochs
  std::vector<std::string> notes;
};

struct PlanInput {
  std::string plan;     // file, or "-"
  std::string model;    // replaces the plan's model file; empty: the plan's
  std::string features; // shards: a folder, a file, or "-"
  bool resume = false;  // "-": not read if an earlier run has kept all of this plan's stream
  SourceOptions source;
};

/// The plan's model is loaded and checked before anything is read from the features. Features of
/// another cut, model or preprocessing are refused. Throws Error, FormatError, UsageError.
Setup setup_from_plan(const PlanInput &input, std::uint64_t seed);

struct DatasetInput {
  std::string model, data;
  data::SourceOptions listing;
  std::string preprocess; // as --preprocess takes it; empty: by the kind of data
  graph::Scheme scheme;
  SourceOptions source;
};

/// Everything is computed here, from the encoded records on.
Setup setup_from_dataset(const DatasetInput &input, std::uint64_t seed);

} // namespace tl::train
