#include "train/network.h"

#include "cli/error.h"
#include "graph/cut.h"
#include "model/load.h"
#include "model/tensors.h"
#include "shard/coding.h"

#include <torch/torch.h>

namespace tl::train {

namespace {

std::string describe(const shard::ValueInfo &value) {
  return std::string(name_of(value.dtype)) + " " + to_string(value.shape) + " " + value.hash.hex();
}

std::string describe(const graph::Value &value) {
  return std::string(name_of(value.dtype)) + " " + to_string(value.shape) + " " + value.hash.hex();
}

at::Tensor made_up_records(const model::InputSpec &input, std::int64_t records) {
  std::vector<std::int64_t> shape = input.shape;
  shape.insert(shape.begin(), records);
  at::Generator generator = at::detail::createCPUGenerator(1);
  const at::TensorOptions type = model::scalar_type(input.dtype);
  // Token ids stay below 2, which every vocabulary has.
  if (input.dtype == DType::i64) return at::randint(0, 2, shape, generator, type);
  return at::rand(shape, generator, type);
}

} // namespace

Network make_network(const model::Model &pretrained, const graph::Scheme &scheme, std::int64_t classes,
                     std::uint64_t seed, const std::string &cut, graph::Execution execution) {
  Network network;
  network.model = model::apply_scheme(pretrained, scheme, classes);
  model::initialise(network.model, seed);
  const graph::Graph &graph = network.model.graph;
  const std::vector<bool> frozen = graph::frozen(graph);
  network.arriving = graph::find_cut(graph, frozen, cut).values;
  network.start = graph::deepest_cut(graph, frozen).values;
  if (network.arriving != network.start)
    network.frozen =
        std::make_shared<model::FrozenProgram>(network.model, network.arriving, network.start, execution);
  return network;
}

void check_features(const Network &network, const shard::ShardMeta &meta, const std::string &origin) {
  const graph::Graph &graph = network.model.graph;
  if (meta.values.size() != network.arriving.size())
    throw FormatError(origin + ": holds " + std::to_string(meta.values.size()) +
                      " values per record, the model takes " + std::to_string(network.arriving.size()));
  for (std::size_t i = 0; i < meta.values.size(); ++i) {
    const shard::ValueInfo &have = meta.values[i];
    const graph::Value &need = graph.values[static_cast<std::size_t>(network.arriving[i])];
    // Pixels are scaled here, so their type is not the value's; the hash covers it.
    const bool pixels = meta.codec == name_of(codec::Number::u8);
    const bool same_type = pixels || shard::decoded_dtype(meta, have) == need.dtype;
    if (have.hash == need.hash && have.shape == need.shape && same_type) continue;
    throw FormatError(origin + ": its '" + have.name + "' (" + describe(have) + ") is not the '" + need.name +
                      "' of " + network.model.path + " (" + describe(need) +
                      "): the features were made from another model or preprocessing; extract them again");
  }
}

void verify_export(const Network &network, const model::Model &trained, const std::string &path,
                   std::int64_t records) {
  const at::NoGradGuard no_grad;
  const at::Tensor input = made_up_records(network.model.input(), records);
  at::Tensor exported;
  try {
    torch::jit::Module module = model::load_torchscript(path);
    exported = module.forward({input}).toTensor();
  } catch (const c10::Error &error) {
    throw Error(path +
                ": the exported model does not run: " + model::first_line(error.what_without_backtrace()));
  }
  std::vector<at::Tensor> values{input};
  if (network.start != std::vector<graph::ValueId>{0})
    values = model::FrozenProgram(network.model, {0}, network.start).run(values);
  const at::Tensor expected = model::TrainedProgram(trained, network.start).run(values, false);
  const auto scale = std::max(1.0, expected.abs().max().item<double>());
  const bool same = exported.sizes() == expected.sizes();
  const double difference = same ? (exported - expected).abs().max().item<double>() : 0;
  if (!same || !(difference <= 1e-4 * scale))
    throw Error(path + ": the exported model's outputs differ from the trained ones by " +
                (same ? std::to_string(difference / scale) + " of the largest" : "their shape") +
                "; please report it");
}

} // namespace tl::train
