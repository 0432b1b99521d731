// Golden tests' view of a model: its graph as JSON, and the tensors at any of its values.
//
//   tl-graph-dump MODEL f32|i64 CxHxW                   the graph, its cuts and the classifier's input
//   tl-graph-dump MODEL f32|i64 CxHxW INPUT OUT VALUE   raw input (any number of records) -> raw tensors:
//       OUT.prefix  the cut VALUE's tensors, one after the other, by the frozen program
//       OUT.output  the model's output computed from them
//   tl-graph-dump MODEL f32|i64 CxHxW --save COPY       the model, written again by save_model()
#include "cli/error.h"
#include "cli/io.h"
#include "graph/cut.h"
#include "graph/scheme.h"
#include "model/export.h"
#include "model/program.h"
#include "model/tensors.h"

#include <torch/torch.h>

#include <cstdio>
#include <iostream>
#include <sstream>

namespace {

tl::Shape parse_shape(const std::string &text) {
  tl::Shape shape;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, 'x');) shape.push_back(std::stoll(part));
  return shape;
}

void write_raw(const std::string &path, const std::vector<at::Tensor> &tensors) {
  tl::cli::AtomicFile file(path);
  for (const at::Tensor &tensor : tensors) {
    const tl::Tensor dense = tl::model::from_torch(tensor);
    file.write(dense.data.get(), dense.bytes());
  }
  file.commit();
}

void describe(const tl::model::Model &model) {
  tl::json::Value report;
  const auto frozen = std::vector<bool>(model.graph.values.size(), true);
  for (const tl::graph::Cut &cut : tl::graph::enumerate_cuts(model.graph, frozen))
    report["cuts"].push_back({{"name", cut.name(model.graph)}, {"bytes", cut.bytes}});
  const auto &features =
      model.graph.values[static_cast<std::size_t>(tl::graph::classifier_input(model.graph))];
  report["classifier_input"] = {
      {"name", features.name}, {"shape", features.shape}, {"hash", features.hash.hex()}};
  report["graph"] = tl::graph::to_json(model.graph);
  std::cout << tl::json::pretty(report);
}

void compute(const tl::model::Model &model, const std::string &input_path, const std::string &out,
             const std::string &cut_name) {
  const std::string bytes = tl::cli::read_file(input_path, std::size_t{1} << 30);
  const auto spec = model.input();
  const auto record = static_cast<std::size_t>(tl::element_count(spec.shape)) * tl::size_of(spec.dtype);
  tl::Shape shape = spec.shape;
  shape.insert(shape.begin(), static_cast<std::int64_t>(bytes.size() / record));
  tl::Tensor input = tl::Tensor::empty(spec.dtype, shape);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(input.data.get()));
  const auto frozen = std::vector<bool>(model.graph.values.size(), true);
  const tl::graph::Cut cut = tl::graph::find_cut(model.graph, frozen, cut_name);
  const tl::model::FrozenProgram prefix(model, {0}, cut.values);
  const tl::model::FrozenProgram rest(model, cut.values, {model.graph.output});
  const auto features = prefix.run({tl::model::to_torch(input)});
  write_raw(out + ".prefix", features);
  write_raw(out + ".output", rest.run(features));
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc < 4) throw tl::UsageError("see the head of tests/support/tl_graph_dump.cpp");
    const tl::model::InputSpec input{tl::dtype_from_name(argv[2]), parse_shape(argv[3])};
    const tl::model::Model model = tl::model::load_model(argv[1], input, tl::Digest());
    if (argc == 4)
      describe(model);
    else if (std::string(argv[4]) == "--save")
      tl::model::save_model(model, argv[5], {{"tl.json", "{}"}});
    else
      compute(model, argv[4], argv[5], argv[6]);
  } catch (const tl::Error &error) {
    std::cerr << "tl-graph-dump: error: " << error.what() << "\n";
    return static_cast<int>(error.code());
  }
  return 0;
}
