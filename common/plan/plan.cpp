#include "plan/plan.h"

#include "cli/error.h"

#include <algorithm>
#include <array>
#include <map>

namespace tl::plan {

namespace {

constexpr std::array<std::string_view, 2> kKinds = {"files", "values"};
constexpr std::array<std::string_view, 2> kSides = {"storage", "compute"};

/// The schema has refused every other name.
template <class Enum, std::size_t N>
Enum from_name(const std::array<std::string_view, N> &names, const std::string &name) {
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

json::Value to_json(const Prediction &p) {
  return {{"storage", p.storage},
          {"link", p.link},
          {"compute", p.compute},
          {"later", p.later},
          {"first_epoch", p.first_epoch},
          {"later_epoch", p.later_epoch},
          {"total", p.total},
          {"bytes", p.bytes},
          {"storage_memory", p.storage_memory},
          {"compute_memory", p.compute_memory},
          {"bottleneck", p.bottleneck()}};
}

Prediction prediction_from_json(const json::Value &document) {
  Prediction p;
  p.storage = document.at("storage").get<double>();
  p.link = document.at("link").get<double>();
  p.compute = document.at("compute").get<double>();
  p.later = document.at("later").get<double>();
  p.first_epoch = document.at("first_epoch").get<double>();
  p.later_epoch = document.at("later_epoch").get<double>();
  p.total = document.at("total").get<double>();
  p.bytes = document.at("bytes").get<double>();
  p.storage_memory = document.at("storage_memory").get<std::int64_t>();
  p.compute_memory = document.at("compute_memory").get<std::int64_t>();
  return p;
}

json::Value to_json(const PlanValue &value) {
  return {{"name", value.name},
          {"hash", value.hash.hex()},
          {"dtype", name_of(value.dtype)},
          {"shape", value.shape}};
}

PlanValue value_from_json(const json::Value &document) {
  PlanValue value;
  value.name = document.at("name").get<std::string>();
  value.hash = Digest::from_hex(document.at("hash").get<std::string>());
  value.dtype = dtype_from_name(document.at("dtype").get<std::string>());
  value.shape = document.at("shape").get<Shape>();
  element_count(value.shape); // refuses what overflows
  return value;
}

json::Value to_json(const Alternative &alternative) {
  return {{"name", alternative.name},
          {"codec", name_of(alternative.codec)},
          {"batch", alternative.batch},
          {"feasible", alternative.feasible},
          {"predicted", to_json(alternative.predicted)},
          {"chosen_by", alternative.chosen_by}};
}

json::Value to_json(const PlanRevision &revision) {
  return {{"storage", revision.storage}, {"link", revision.link},       {"compute", revision.compute},
          {"allowed", revision.allowed}, {"drifted", revision.drifted}, {"cut", revision.cut},
          {"codec", revision.codec}};
}

PlanRevision revision_from_json(const json::Value &document) {
  PlanRevision revision;
  revision.storage = document.at("storage").get<double>();
  revision.link = document.at("link").get<double>();
  revision.compute = document.at("compute").get<double>();
  revision.allowed = document.at("allowed").get<double>();
  revision.drifted = document.at("drifted").get<bool>();
  revision.cut = document.at("cut").get<std::string>();
  revision.codec = document.at("codec").get<std::string>();
  return revision;
}

Alternative alternative_from_json(const json::Value &document) {
  Alternative alternative;
  alternative.name = document.at("name").get<std::string>();
  alternative.codec = codec::codec_from_name(document.at("codec").get<std::string>());
  alternative.batch = document.at("batch").get<std::int64_t>();
  alternative.feasible = document.at("feasible").get<bool>();
  alternative.predicted = prediction_from_json(document.at("predicted"));
  alternative.chosen_by = document.at("chosen_by").get<std::vector<std::string>>();
  return alternative;
}

void read_cut(Plan &plan, const json::Value &cut, const std::string &origin) {
  plan.kind = from_name<CutKind>(kKinds, cut.at("kind").get<std::string>());
  for (const json::Value &value : cut.at("values")) plan.values.push_back(value_from_json(value));
  if ((plan.kind == CutKind::files) != plan.values.empty())
    throw FormatError(origin + ": /cut/values: must be empty for files, and only then");
}

Plan read_plan(const json::Value &document, const std::string &origin) {
  Plan plan;
  const json::Value &model = document.at("model");
  plan.model_path = model.at("path").get<std::string>();
  plan.storage_model_path = model.at("storage_path").get<std::string>();
  plan.model_digest = Digest::from_hex(model.at("digest").get<std::string>());
  plan.input_dtype = dtype_from_name(model.at("input").at("dtype").get<std::string>());
  plan.input_shape = model.at("input").at("shape").get<Shape>();
  element_count(plan.input_shape); // refuses what overflows
  plan.classes = document.at("classes").get<std::int64_t>();
  plan.scheme = graph::scheme_from_json(document.at("scheme"), origin);
  plan.preprocess = document.at("preprocess");
  plan.codec = codec::codec_from_name(document.at("codec").get<std::string>());
  read_cut(plan, document.at("cut"), origin);
  if (const auto found = document.find("execution"); found != document.end()) {
    plan.storage_execution = graph::execution_from_name(found->at("storage").get<std::string>());
    plan.compute_execution = graph::execution_from_name(found->at("compute").get<std::string>());
  }
  plan.batch = document.at("batch").get<std::int64_t>();
  plan.shuffle = document.at("order").at("shuffle").get<bool>();
  plan.seed = document.at("order").at("seed").get<std::uint64_t>();
  const json::Value &cache = document.at("cache");
  plan.cache.values = cache.at("values").get<std::vector<std::string>>();
  plan.cache.bytes_per_record = cache.at("bytes_per_record").get<std::int64_t>();
  plan.cache.memory = cache.at("memory_bytes").get<std::int64_t>();
  plan.train_on = from_name<Side>(kSides, document.at("train_on").get<std::string>());
  plan.algorithm = document.at("algorithm").get<std::string>();
  plan.predicted = prediction_from_json(document.at("predicted"));
  if (const auto found = document.find("revision"); found != document.end())
    plan.revision = revision_from_json(*found);
  for (const json::Value &item : document.at("alternatives"))
    plan.alternatives.push_back(alternative_from_json(item));
  if (plan.digest().hex() != document.at("digest").get<std::string>())
    throw FormatError(origin + ": /digest: does not fit the cut and codec beside it; "
                               "was the plan edited? make it anew with tl-split");
  return plan;
}

} // namespace

std::string_view name_of(CutKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
std::string_view name_of(Side side) { return kSides[static_cast<std::size_t>(side)]; }

std::string_view Prediction::bottleneck() const {
  if (storage >= link && storage >= compute) return "storage";
  return link >= compute ? "link" : "compute";
}

std::string Plan::cut_name() const {
  if (kind == CutKind::files) return "files";
  std::string name;
  for (const PlanValue &value : values) name += (name.empty() ? "" : "+") + value.name;
  return name;
}

bool Plan::storage_computes() const { return kind == CutKind::values && cut_name() != "input"; }

Digest Plan::digest() const {
  Hasher hasher;
  hasher.add("tl-plan 1").add(name_of(kind)).add(name_of(codec.number));
  hasher.add(static_cast<std::int64_t>(values.size()));
  for (const PlanValue &value : values) {
    hasher.add(value.name).add(value.hash).add(name_of(value.dtype));
    hasher.add(static_cast<std::int64_t>(value.shape.size()));
    for (const std::int64_t size : value.shape) hasher.add(size);
  }
  if (!graph::exact(storage_execution)) hasher.add(graph::name_of(storage_execution));
  return hasher.digest();
}

Digest parameters_digest(const graph::Graph &graph) {
  std::map<std::string, Digest> contents; // by name: independent of the order of the file
  for (const graph::Parameter &parameter : graph.parameters)
    if (!parameter.fresh) contents[parameter.name] = parameter.content;
  Hasher hasher;
  hasher.add("tl-parameters 1").add(static_cast<std::int64_t>(contents.size()));
  for (const auto &[name, content] : contents) hasher.add(name).add(content);
  return hasher.digest();
}

json::Value to_json(const Plan &plan) {
  json::Value values = json::Value::array(), alternatives = json::Value::array();
  for (const PlanValue &value : plan.values) values.push_back(to_json(value));
  for (const Alternative &item : plan.alternatives) alternatives.push_back(to_json(item));
  json::Value document = {{"format", "tl-plan"},
                          {"version", 1},
                          {"digest", plan.digest().hex()},
                          {"model",
                           {{"path", plan.model_path},
                            {"storage_path", plan.storage_model_path},
                            {"digest", plan.model_digest.hex()},
                            {"input", {{"dtype", name_of(plan.input_dtype)}, {"shape", plan.input_shape}}}}},
                          {"classes", plan.classes},
                          {"scheme", graph::to_json(plan.scheme)},
                          {"preprocess", plan.preprocess},
                          {"cut", {{"kind", name_of(plan.kind)}, {"values", values}}},
                          {"codec", name_of(plan.codec)},
                          {"execution",
                           {{"storage", graph::name_of(plan.storage_execution)},
                            {"compute", graph::name_of(plan.compute_execution)}}},
                          {"batch", plan.batch},
                          {"order", {{"shuffle", plan.shuffle}, {"seed", plan.seed}}},
                          {"cache",
                           {{"values", plan.cache.values},
                            {"bytes_per_record", plan.cache.bytes_per_record},
                            {"memory_bytes", plan.cache.memory}}},
                          {"train_on", name_of(plan.train_on)},
                          {"algorithm", plan.algorithm},
                          {"predicted", to_json(plan.predicted)},
                          {"alternatives", alternatives}};
  if (plan.revision) document["revision"] = to_json(*plan.revision);
  return document;
}

Plan plan_from_json(const json::Value &document, const std::string &origin) {
  json::validate(document, "plan", origin);
  return read_plan(document, origin);
}

Plan load_plan(const std::string &path) {
  return read_plan(json::load(path, "plan"), path == "-" ? "stdin" : path);
}

} // namespace tl::plan
