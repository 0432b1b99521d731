#include "profile/codecs.h"

#include "cli/error.h"
#include "data/loader.h"
#include "graph/cut.h"
#include "model/program.h"
#include "model/tensors.h"
#include "profile/deviation.h"
#include "profile/records.h"
#include "runtime/clock.h"
#include "shard/coding.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace tl::profile {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{256} << 20; // of all values of all records
constexpr double kBrief = 5e-3;                              // seconds; what is over sooner is repeated
// Of one value: two large records tell as much as eight small ones.
constexpr std::int64_t kValueBytes = std::int64_t{4} << 20;
constexpr std::int64_t kFewestRecords = 2;

/// The smallest first: they are the ones worth sending, and take the least time.
std::vector<graph::ValueId> crossing_values(const graph::Graph &graph) {
  std::set<graph::ValueId> crossing;
  for (const graph::Cut &cut : graph::enumerate_cuts(graph, std::vector<bool>(graph.values.size(), true)))
    crossing.insert(cut.values.begin(), cut.values.end());
  std::vector<graph::ValueId> ids(crossing.begin(), crossing.end());
  const auto bytes = [&](graph::ValueId id) { return graph.values[static_cast<std::size_t>(id)].bytes(); };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](graph::ValueId a, graph::ValueId b) { return bytes(a) < bytes(b); });
  return ids;
}

std::int64_t bytes_of(const graph::Graph &graph, const std::vector<graph::ValueId> &ids) {
  std::int64_t bytes = 0;
  for (const graph::ValueId id : ids) bytes += graph.values[static_cast<std::size_t>(id)].bytes();
  return bytes;
}

/// The first `count` sound records of the data set's shuffled order, in two forms; no pixels if the model
/// takes something else.
struct Sample {
  Tensor input, pixels;
};

Sample real_records(const data::Dataset &dataset, const data::Preprocess &preprocess, std::int64_t count) {
  Sample sample;
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(count);
  options.threads = 1;
  options.on_error = data::OnError::skip;
  const bool image = preprocess.kind == data::InputKind::image;
  if (image) options.form = data::Form::pixels;
  data::Loader loader(dataset, data::record_order(dataset, true, 0), preprocess, options);
  std::optional<data::Batch> batch = loader.next();
  if (!batch) throw Error(dataset.spec() + ": none of its records can be used");
  sample.input = std::move(batch->input);
  if (!image) return sample;
  sample.pixels = std::move(sample.input);
  sample.input = data::normalise(preprocess, sample.pixels);
  return sample;
}

template <class Run> double best_time(const Run &run) {
  const Stopwatch total;
  double best = 0;
  for (int i = 0; i == 0 || (i < 20 && total.seconds() < kBrief); ++i) {
    const Stopwatch watch;
    run();
    best = i == 0 ? watch.seconds() : std::min(best, watch.seconds());
  }
  return best;
}

plan::CodecCost measure(const shard::Shard &rows, codec::Codec codec, const data::Preprocess &preprocess) {
  const auto count = static_cast<double>(rows.size());
  const shard::ShardMeta meta = shard::coded(rows.meta, codec);
  shard::Shard written;
  std::vector<Tensor> values;
  plan::CodecCost cost;
  cost.codec = codec;
  cost.encode_seconds = best_time([&] { written = shard::encode(meta, rows); }) / count;
  cost.decode_seconds = best_time([&] {
                          values = shard::decode(meta, shard::unpack(written));
                          if (codec.number == codec::Number::u8) data::normalise(preprocess, values[0]);
                        }) /
                        count;
  cost.bytes = static_cast<double>(written.feature_bytes()) / count;
  if (!codec.exact()) {
    const Deviation error = deviation(model::to_torch(values[0]), model::to_torch(rows.values[0]));
    cost.rms_error = error.rms;
    cost.max_error = error.max;
  }
  return cost;
}

shard::Shard rows_of(const graph::Value &value, Tensor tensor, codec::Number number) {
  shard::Shard rows;
  const std::int64_t fitting = kValueBytes / std::max<std::int64_t>(value.bytes(), 1);
  tensor.shape.at(0) = std::min(tensor.shape[0], std::max(fitting, kFewestRecords));
  const auto count = static_cast<std::size_t>(tensor.shape[0]);
  rows.meta.codec = name_of(number);
  rows.meta.values = {{value.name, value.hash, tensor.dtype, value.shape}};
  rows.labels.resize(count, -1);
  rows.records.resize(count);
  rows.rows.resize(count);
  rows.ids.resize(count);
  rows.values.push_back(std::move(tensor));
  return rows;
}

std::vector<codec::Codec> codecs_for(const Tensor &tensor, bool pixels) {
  std::vector<codec::Codec> codecs;
  for (const codec::Codec codec : codec::kCodecs) {
    if (pixels != (codec.number == codec::Number::u8)) continue;
    if (codec.exact() || tensor.dtype == DType::f32) codecs.push_back(codec);
  }
  return codecs;
}

} // namespace

MeasuredCodecs measure_codecs(const model::Model &model, const data::Preprocess &preprocess,
                              const std::optional<data::Dataset> &dataset, const CodecOptions &options) {
  const graph::Graph &graph = model.graph;
  const std::vector<graph::ValueId> ids = crossing_values(graph);
  const std::int64_t fitting = kMostBytes / std::max<std::int64_t>(bytes_of(graph, ids), 1);
  const std::int64_t records = std::clamp<std::int64_t>(fitting, 1, options.records);
  Sample sample;
  if (dataset)
    sample = real_records(*dataset, preprocess, records);
  else
    sample.input = model::from_torch(random_records(model.input(), records));
  const std::vector<at::Tensor> values =
      model::FrozenProgram(model, {0}, ids).run({model::to_torch(sample.input)});

  MeasuredCodecs result;
  result.profile.records = sample.input.shape.at(0);
  result.profile.real = dataset.has_value();
  std::map<graph::ValueId, plan::ValueCodecs> measured;
  const Stopwatch watch;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check_interrupt();
    if (i > 0 && watch.seconds() > options.seconds) {
      result.notes.push_back("codecs: " + std::to_string(ids.size() - i) + " of " +
                             std::to_string(ids.size()) + " values left out; give more --seconds");
      break;
    }
    const graph::Value &value = graph.values[static_cast<std::size_t>(ids[i])];
    const bool pixels = ids[i] == 0 && preprocess.kind == data::InputKind::image;
    if (pixels && !dataset) continue; // random numbers are no picture
    const shard::Shard rows = rows_of(value, pixels ? sample.pixels : model::from_torch(values[i]),
                                      pixels ? codec::Number::u8 : codec::Number::fp32);
    plan::ValueCodecs &codecs = measured[ids[i]];
    codecs = {value.name, value.hash, {}};
    for (const codec::Codec codec : codecs_for(rows.values[0], pixels))
      codecs.codecs.push_back(measure(rows, codec, preprocess));
  }
  for (auto &[id, codecs] : measured) result.profile.values.push_back(std::move(codecs));
  return result;
}

} // namespace tl::profile
