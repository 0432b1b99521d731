#include "select/trial.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "model/load.h"
#include "model/tensors.h"
#include "runtime/clock.h"
#include "shard/folder.h"
#include "shard/sealed.h"
#include "train/sources.h"
#include "json/bytes.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <tuple>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

constexpr const char *kWeightsFormat = "tl-weights";

std::string result_path(const std::string &folder) { return (fs::path(folder) / "result.json").string(); }
std::string weights_path(const std::string &folder) {
  return (fs::path(folder) / "weights.safetensors").string();
}

json::Value epoch_line(const train::EpochResult &epoch) {
  return {{"epoch", epoch.epoch},
          {"loss", epoch.train.loss},
          {"lr", epoch.train.lr},
          {"validation_loss", epoch.validation->loss()},
          {"accuracy", epoch.validation->accuracy()},
          {"balanced_accuracy", epoch.validation->balanced_accuracy()}};
}

/// The parameters that training gave other contents.
std::vector<shard::NamedTensor> changed_weights(const model::Model &before, const model::Model &after) {
  std::vector<shard::NamedTensor> weights;
  for (std::size_t i = 0; i < after.parameters.size(); ++i)
    if (!after.parameters[i].is_same(before.parameters[i]))
      weights.push_back({after.graph.parameters[i].name, model::from_torch(after.parameters[i].detach())});
  return weights;
}

/// Trains into `trial`; returns the weights.
std::vector<shard::NamedTensor> train_into(Trial &trial, const Candidate &candidate,
                                           const std::string &features,
                                           const std::function<void(const train::EpochResult &)> &epoch) {
  const Prepared &prepared = *candidate.prepared;
  const train::TrainOptions &options = candidate.spec.options;
  model::Model model = prepared.model;
  model::initialise(model, options.seed);
  train::SourceOptions how;
  how.order = options.seed; // in which tl-train reads a data set
  auto source = train::shard_source(shard::open_shards(features), prepared.preprocess, how);
  const auto classes = static_cast<std::int64_t>(source->classes().size());
  train::Trainer trainer(model, prepared.inputs, classes, options);
  // The folder holds exactly what training reads, so nothing frozen is left to run.
  train::Features rows(std::move(source), nullptr, classes);
  train::fit(rows, {&trainer}, [&](std::size_t, const train::EpochResult &result) {
    trial.epochs = result.epoch;
    trial.training_records = result.train.records;
    trial.history.push_back(epoch_line(result));
    if (result.best) {
      trial.best_epoch = result.epoch;
      trial.score = result.validation->score(options.monitor);
      trial.validation = result.validation->to_json();
    }
    if (epoch) epoch(result);
  });
  return changed_weights(model, trainer.best());
}

/// What another run must not find: the figures of a training that broke off.
void fail(Trial &trial, const std::string &why, bool final) {
  trial.failure = why;
  trial.final = final;
  trial.epochs = trial.best_epoch = 0;
  trial.validation = nullptr;
  trial.history = json::Value::array();
}

} // namespace

json::Value to_json(const Trial &trial) {
  json::Value document = {{"format", "tl-trial"},     {"version", 1},
                          {"id", trial.id},           {"name", json::escape_bytes(trial.name)},
                          {"data", trial.data.hex()}, {"status", trial.failed() ? "failed" : "ok"}};
  if (trial.failed()) {
    document["failure"] = json::escape_bytes(trial.failure);
    document["final"] = trial.final;
  } else {
    document["training_records"] = trial.training_records;
    document["epochs"] = trial.epochs;
    document["best_epoch"] = trial.best_epoch;
    document["score"] = trial.score;
    document["validation"] = trial.validation;
    document["history"] = trial.history;
  }
  document["seconds"] = trial.seconds;
  return document;
}

Trial trial_from_json(const json::Value &document, const std::string &origin) {
  json::validate(document, "trial", origin);
  Trial trial;
  trial.id = document.at("id").get<std::string>();
  trial.name = json::unescape_bytes(document.at("name").get<std::string>());
  trial.data = Digest::from_hex(document.at("data").get<std::string>());
  trial.seconds = document.at("seconds").get<double>();
  const bool failed = document.at("status") == "failed";
  for (const char *key : {"failure", "final"})
    if (document.contains(key) != failed)
      throw FormatError(origin + ": /" + key + ": does not fit the status");
  for (const char *key : {"training_records", "epochs", "best_epoch", "score", "validation", "history"})
    if (document.contains(key) == failed)
      throw FormatError(origin + ": /" + key + ": does not fit the status");
  if (failed) {
    trial.failure = json::unescape_bytes(document.at("failure").get<std::string>());
    trial.final = document.at("final").get<bool>();
    return trial;
  }
  trial.training_records = document.at("training_records").get<std::int64_t>();
  trial.epochs = document.at("epochs").get<std::int64_t>();
  trial.best_epoch = document.at("best_epoch").get<std::int64_t>();
  trial.score = document.at("score").get<double>();
  trial.validation = document.at("validation");
  trial.history = document.at("history");
  return trial;
}

Digest data_digest(const std::string &features) {
  const std::optional<shard::FolderIndex> index = shard::read_index(features);
  if (!index) throw FormatError(features + ": has no index; run again to extract it");
  Hasher hasher;
  hasher.add("tl-data 1").add(static_cast<std::int64_t>(index->meta.classes.size()));
  for (const std::string &name : index->meta.classes) hasher.add(name);
  std::vector<const shard::Member *> members;
  for (const shard::IndexEntry &entry : index->entries) members.push_back(&entry.member);
  std::sort(members.begin(), members.end(), [](const shard::Member *a, const shard::Member *b) {
    return std::tie(a->record, a->id, a->label) < std::tie(b->record, b->id, b->label);
  });
  for (const shard::Member *member : members) hasher.add(member->record).add(member->label).add(member->id);
  return hasher.digest();
}

std::optional<Trial> TrialFolder::load(const Candidate &candidate, const Digest &data) const {
  std::error_code ignored;
  if (!fs::exists(result_path(path), ignored)) return std::nullopt;
  try {
    const std::string file = result_path(path);
    Trial trial = trial_from_json(json::load(file, "trial"), file);
    if (trial.id != candidate.id || trial.data != data || (trial.failed() && !trial.final))
      return std::nullopt;
    if (!trial.failed() && !fs::exists(weights_path(path), ignored)) return std::nullopt;
    trial.name = candidate.name();
    trial.cached = true;
    return trial;
  } catch (const FormatError &) { // it is made again
    return std::nullopt;
  }
}

void TrialFolder::save(const Trial &trial, const std::vector<shard::NamedTensor> &weights) const {
  if (!trial.failed()) {
    shard::SafeTensors file{weights, {{"candidate", trial.id}, {"data", trial.data.hex()}}};
    cli::AtomicFile output(weights_path(path));
    shard::write_sealed(std::move(file), kWeightsFormat,
                        [&](const void *bytes, std::size_t size) { output.write(bytes, size); });
    output.commit();
  }
  const json::Value document = to_json(trial);
  json::validate(document, "trial", result_path(path));
  cli::write_output(result_path(path), json::pretty(document));
}

model::Model TrialFolder::best_model(const Candidate &candidate, const Digest &data) const {
  const std::string file = weights_path(path);
  const shard::SafeTensors weights = shard::parse_sealed(shard::map_file(file), kWeightsFormat, file);
  if (shard::required(weights.metadata, "candidate", file) != candidate.id ||
      shard::required(weights.metadata, "data", file) != data.hex())
    throw FormatError(file + ": belongs to another training");
  model::Model model = candidate.prepared->model;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const graph::Parameter &parameter = model.graph.parameters[i];
    if (const Tensor *tensor = weights.find(parameter.name)) {
      shard::required(weights, parameter.name, parameter.dtype, parameter.shape, file);
      model.parameters[i] = model::to_torch(*tensor).clone();
    } else if (parameter.trainable) {
      throw FormatError(file + ": tensor '" + parameter.name + "' is missing");
    }
  }
  return model;
}

Trial train_candidate(const Candidate &candidate, const std::string &features, const Digest &data,
                      const TrialFolder &folder,
                      const std::function<void(const train::EpochResult &)> &epoch) {
  const Stopwatch watch;
  Trial trial;
  trial.id = candidate.id;
  trial.name = candidate.name();
  trial.data = data;
  trial.history = json::Value::array();
  std::vector<shard::NamedTensor> weights;
  try {
    weights = train_into(trial, candidate, features, epoch);
  } catch (const train::NotFinite &error) {
    fail(trial, error.what(), true);
  } catch (const FormatError &) {
    throw;
  } catch (const SystemError &) {
    throw;
  } catch (const Error &error) {
    if (error.code() == ExitCode::interrupted || error.code() == ExitCode::closed_pipe) throw;
    fail(trial, error.what(), false);
  } catch (const c10::Error &error) {
    fail(trial, model::first_line(error.what_without_backtrace()), false);
  } catch (const std::bad_alloc &) {
    fail(trial, "out of memory", false);
  }
  trial.seconds = watch.seconds();
  folder.save(trial, weights);
  return trial;
}

} // namespace tl::select
