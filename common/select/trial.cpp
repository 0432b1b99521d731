#include "select/trial.h"

#include "cli/error.h"
#include "cli/io.h"
#include "model/tensors.h"
#include "shard/folder.h"
#include "shard/folder_files.h"
#include "shard/sealed.h"
#include "json/bytes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

constexpr const char *kWeightsFormat = "tl-weights";
constexpr const char *kStateFormat = "tl-state";

std::string result_path(const std::string &folder) { return (fs::path(folder) / "result.json").string(); }
std::string weights_path(const std::string &folder) {
  return (fs::path(folder) / "weights.safetensors").string();
}

std::string state_path(const std::string &folder) {
  return (fs::path(folder) / "state.safetensors").string();
}

void write_tensors(const std::string &path, const char *format, shard::SafeTensors file) {
  cli::AtomicFile output(path);
  shard::write_sealed(std::move(file), format,
                      [&](const void *bytes, std::size_t size) { output.write(bytes, size); });
  output.commit();
}

using Labelled = std::pair<Digest, std::int64_t>; // content and label

Digest digest_of(const std::vector<std::string> &classes, std::vector<Labelled> records) {
  Hasher hasher;
  hasher.add("tl-data 2").add(static_cast<std::int64_t>(classes.size()));
  for (const std::string &name : classes) hasher.add(name);
  std::sort(records.begin(), records.end());
  for (const auto &[record, label] : records) hasher.add(record).add(label);
  return hasher.digest();
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
  if (trial.warm_start) document["warm_start"] = trial.warm_start->hex();
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
  if (document.contains("warm_start"))
    trial.warm_start = Digest::from_hex(document.at("warm_start").get<std::string>());
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

Digest data_digest(const std::vector<std::string> &folders) {
  std::vector<std::string> classes;
  std::vector<Labelled> records;
  std::map<Digest, std::size_t> folders_with; // a record
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const std::optional<shard::FolderIndex> index = shard::read_index(folders[i]);
    if (!index) throw FormatError(folders[i] + ": has no index; run again to extract it");
    std::set<Digest> here;
    for (const shard::IndexEntry &entry : index->entries) {
      here.insert(entry.member.record);
      if (i == 0) records.emplace_back(entry.member.record, entry.member.label);
    }
    for (const Digest &record : here) ++folders_with[record];
    if (i == 0) classes = index->meta.classes;
  }
  records.erase(std::remove_if(records.begin(), records.end(),
                               [&](const Labelled &r) { return folders_with[r.first] < folders.size(); }),
                records.end());
  return digest_of(classes, std::move(records));
}

Digest data_digest(const data::Dataset &dataset, std::size_t threads, data::HashCache *hashes) {
  data::LoaderOptions loading;
  loading.form = data::Form::encoded;
  loading.threads = threads;
  loading.on_error = data::OnError::skip; // training says what is wrong with it
  loading.hashes = hashes;
  std::mutex mutex;
  std::vector<Labelled> records;
  loading.wanted = [&](std::uint32_t index, const Digest &hash) {
    const std::lock_guard<std::mutex> guard(mutex);
    records.emplace_back(hash, dataset.records()[index].label);
    return false; // its hash was all
  };
  data::Loader loader(dataset, data::record_order(dataset, false, 0), {}, loading);
  while (loader.next()) {
  }
  return digest_of(dataset.classes(), std::move(records));
}

std::optional<Trial> TrialFolder::load(const Candidate &candidate, const Digest &data, bool with_warm) const {
  std::error_code ignored;
  if (!fs::exists(result_path(path), ignored)) return std::nullopt;
  try {
    const std::string file = result_path(path);
    Trial trial = trial_from_json(json::load(file, "trial"), file);
    if (trial.id != candidate.id || trial.data != data || (trial.failed() && !trial.final))
      return std::nullopt;
    if (trial.warm_start && !with_warm) return std::nullopt;
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
    write_tensors(weights_path(path), kWeightsFormat,
                  {weights, {{"candidate", trial.id}, {"data", trial.data.hex()}}});
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

std::optional<Digest> TrialFolder::warm_start(const Candidate &candidate, model::Model &model) const {
  const std::string file = weights_path(path);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    const shard::SafeTensors weights = shard::parse_sealed(shard::map_file(file), kWeightsFormat, file);
    if (shard::required(weights.metadata, "candidate", file) != candidate.id) return std::nullopt;
    std::vector<at::Tensor> parameters = model.parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const graph::Parameter &parameter = model.graph.parameters[i];
      const bool there = weights.find(parameter.name) != nullptr;
      if (!there && !parameter.trainable) continue;
      parameters[i] =
          model::to_torch(shard::required(weights, parameter.name, parameter.dtype, parameter.shape, file))
              .clone();
    }
    const Digest data = Digest::from_hex(shard::required(weights.metadata, "data", file));
    model.parameters = std::move(parameters);
    return data;
  } catch (const FormatError &) { // it starts from the seed
    return std::nullopt;
  }
}

void TrialFolder::save_state(const Trial &trial, const train::TrainerState &state) const {
  write_tensors(state_path(path), kStateFormat,
                {state.tensors,
                 {{"candidate", trial.id},
                  {"data", trial.data.hex()},
                  {"epochs", std::to_string(trial.epochs)},
                  {"progress", json::compact(state.progress)}}});
}

std::optional<train::TrainerState> TrialFolder::load_state(const Trial &trial) const {
  const std::string file = state_path(path);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  try {
    shard::SafeTensors stored = shard::parse_sealed(shard::map_file(file), kStateFormat, file);
    if (shard::required(stored.metadata, "candidate", file) != trial.id ||
        shard::required(stored.metadata, "data", file) != trial.data.hex() ||
        shard::required_count(stored.metadata, "epochs", file) != trial.epochs)
      return std::nullopt;
    train::TrainerState state;
    state.progress = json::parse(shard::required(stored.metadata, "progress", file), file);
    state.tensors = std::move(stored.tensors);
    return state;
  } catch (const FormatError &) { // it is trained from the start
    return std::nullopt;
  }
}

void TrialFolder::remove_state() const { shard::remove_file(state_path(path)); }

} // namespace tl::select
