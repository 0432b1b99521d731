#include "extract/prefix.h"

#include "cli/error.h"
#include "model/tensors.h"
#include "shard/coding.h"

#include <ATen/core/Tensor.h>

#include <cstring>

namespace tl::extract {

namespace {

Shape with_rows(std::int64_t rows, const Shape &shape) {
  Shape whole{rows};
  whole.insert(whole.end(), shape.begin(), shape.end());
  return whole;
}

std::string quoted(const std::string &name) { return "'" + name + "'"; }

bool is_input(const std::vector<graph::ValueId> &values) { return values.size() == 1 && values[0] == 0; }

/// A graph with no operator: enough to ship the preprocessed records, for which the storage side
/// needs no model file.
model::Model input_only(const plan::Plan &plan, const Digest &preprocessing) {
  model::Model model;
  graph::Value input;
  input.name = "input";
  input.dtype = plan.input_dtype;
  input.shape = plan.input_shape;
  model.graph.values.push_back(input);
  model.preprocessing = preprocessing;
  graph::compute_hashes(model.graph, preprocessing);
  return model;
}

model::Model planned_model(const plan::Plan &plan, const std::string &origin, const std::string &path,
                           const Digest &preprocessing) {
  const model::Model model = model::load_model(path, {plan.input_dtype, plan.input_shape}, preprocessing);
  if (plan::parameters_digest(model.graph) != plan.model_digest)
    throw Error(path + ": has other weights than the model that " + origin +
                " was made for; give the right file with --model, or make a new plan with tl-split");
  return model::apply_scheme(model, plan.scheme, plan.classes);
}

/// The plan's values in this graph, if they are still what the plan says.
std::vector<graph::ValueId> planned_values(const plan::Plan &plan, const std::string &origin,
                                           const model::Model &model) {
  std::vector<graph::ValueId> ids;
  for (const plan::PlanValue &want : plan.values) {
    const graph::ValueId id = model.graph.find(want.name);
    const graph::Value &have = model.graph.values[static_cast<std::size_t>(id)];
    std::string problem;
    if (have.dtype != want.dtype || have.shape != want.shape)
      problem = "is " + to_string(have.shape) + " of " + std::string(name_of(have.dtype)) + ", not " +
                to_string(want.shape) + " of " + std::string(name_of(want.dtype));
    else if (have.hash != want.hash)
      problem = "is computed in another way (another graph, preprocessing or version of the tools)";
    if (!problem.empty())
      throw Error(origin + ": stale plan: value " + quoted(want.name) + " " + problem +
                  "; make a new plan with tl-split");
    ids.push_back(id);
  }
  return ids;
}

void check_classes(const plan::Plan &plan, const std::string &origin, const data::Dataset &dataset) {
  const auto have = static_cast<std::int64_t>(dataset.classes().size());
  if (have == 0 || have == plan.classes) return;
  throw Error(dataset.spec() + ": has " + std::to_string(have) + " classes, but " + origin + " is for " +
              std::to_string(plan.classes) + "; choose with --classes, or make a new plan with tl-split");
}

Tensor stack(const std::vector<data::Encoded> &records, const shard::ValueInfo &value) {
  Tensor rows = Tensor::empty(value.dtype, with_rows(static_cast<std::int64_t>(records.size()), value.shape));
  std::byte *to = rows.data.get();
  for (const data::Encoded &record : records) {
    std::memcpy(to, record.content.data.get(), record.content.bytes());
    to += record.content.bytes();
  }
  return rows;
}

} // namespace

void Prefix::set_values(const model::Model &model, const graph::Cut &cut, codec::Codec codec,
                        graph::Execution execution) {
  const bool pixels = codec.number == codec::Number::u8;
  form_ = pixels ? data::Form::pixels : data::Form::input;
  plan::Plan described; // so that shards made with and without a plan name the same one
  described.kind = plan::CutKind::values;
  described.codec = codec;
  for (const graph::ValueId id : cut.values) {
    const graph::Value &value = model.graph.values[static_cast<std::size_t>(id)];
    described.values.push_back({value.name, value.hash, value.dtype, value.shape});
    computed_.values.push_back({value.name, value.hash, pixels ? DType::u8 : value.dtype, value.shape});
  }
  computed_.codec = name_of(pixels ? codec::Number::u8 : codec::Number::fp32);
  computed_.preprocess = json::compact(data::to_json(preprocess_));
  computed_.preprocess_digest = preprocess_.digest();
  if (!is_input(cut.values)) {
    described.storage_execution = execution;
    if (!graph::exact(execution)) computed_.precision = graph::name_of(execution);
    program_ =
        std::make_shared<model::FrozenProgram>(model, std::vector<graph::ValueId>{0}, cut.values, execution);
  }
  computed_.plan = described.digest();
  meta_ = shard::coded(computed_, codec);
}

Prefix::Prefix(const model::Model &model, const graph::Cut &cut, const data::Preprocess &preprocess,
               std::optional<codec::Codec> codec, graph::Execution execution)
    : preprocess_(preprocess) {
  const bool pixels = is_input(cut.values) && preprocess.kind == data::InputKind::image;
  if (!codec) codec = pixels ? codec::Codec::u8 : codec::Codec::fp32;
  if (codec->number == codec::Number::u8 && !pixels)
    throw UsageError("the codec " + name_of(*codec) + " is for pictures cut at 'input' only");
  set_values(model, cut, *codec, execution);
}

Prefix Prefix::of_records(const data::Dataset &dataset) {
  Prefix prefix;
  if (dataset.content() == data::Content::files) {
    prefix.meta_.payload = shard::Payload::files;
  } else {
    prefix.meta_.payload = shard::Payload::rows;
    prefix.meta_.values = {{"raw", Digest(), dataset.row_dtype(), dataset.row_shape()}};
  }
  plan::Plan described;
  described.kind = plan::CutKind::files;
  prefix.meta_.plan = described.digest();
  prefix.computed_ = prefix.meta_;
  return prefix;
}

Prefix Prefix::of_plan(const plan::Plan &plan, const std::string &origin, const std::string &model_path,
                       const data::Dataset &dataset) {
  check_classes(plan, origin, dataset);
  if (plan.kind == plan::CutKind::files) return of_records(dataset);
  Prefix prefix;
  prefix.preprocess_ = data::preprocess_from_json(plan.preprocess, origin);
  const Digest preprocessing = prefix.preprocess_.digest();
  const bool input_alone = !plan.storage_computes();
  if (plan.codec.number == codec::Number::u8 &&
      (!input_alone || prefix.preprocess_.kind != data::InputKind::image))
    throw FormatError(origin + ": /codec: u8 is for pictures cut at 'input' only");
  const std::string &path = model_path.empty() ? plan.storage_model_path : model_path;
  const model::Model model =
      input_alone ? input_only(plan, preprocessing) : planned_model(plan, origin, path, preprocessing);
  graph::Cut cut;
  if (!input_alone) cut = graph::find_cut(model.graph, graph::frozen(model.graph), plan.cut_name());
  cut.values = planned_values(plan, origin, model); // in the order that the receiver expects
  prefix.set_values(model, cut, plan.codec, plan.storage_execution);
  return prefix;
}

std::vector<Tensor> Prefix::run(const data::Batch &batch) const {
  if (meta_.payload == shard::Payload::files) return {};
  if (meta_.payload == shard::Payload::rows) return {stack(batch.encoded, meta_.values.front())};
  std::vector<Tensor> values;
  if (program_) {
    for (const at::Tensor &value : program_->run({model::to_torch(batch.input)}))
      values.push_back(model::from_torch(value));
  } else {
    values.push_back(batch.input);
  }
  const auto rows = static_cast<std::int64_t>(batch.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const shard::ValueInfo &want = computed_.values[i];
    if (values[i].dtype != want.dtype || values[i].shape != with_rows(rows, want.shape))
      throw Error("value " + quoted(want.name) + " of a batch of " + std::to_string(rows) + " is " +
                  to_string(values[i].shape) + " of " + std::string(name_of(values[i].dtype)) + ", where " +
                  to_string(with_rows(rows, want.shape)) + " of " + std::string(name_of(want.dtype)) +
                  " was expected; the model or the preprocessing does not fit these records");
  }
  return values;
}

} // namespace tl::extract
