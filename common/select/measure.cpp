#include "select/measure.h"

#include "cli/error.h"
#include "data/loader.h"
#include "graph/flops.h"
#include "model/peak_memory.h"
#include "model/program.h"
#include "profile/records.h"
#include "profile/runs.h"
#include "runtime/at.h"
#include "runtime/clock.h"
#include "select/measure_training.h"
#include "shard/folder.h"
#include "train/sources.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <functional>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::size_t kRuns = 24;          // that the frozen layers of a graph are timed in, about
constexpr std::int64_t kLargestBatch = 32; // as much as extraction takes

/// Seconds of the fastest of up to three calls: others who use the machine only add to it.
double fastest(const std::function<void()> &call) {
  const Stopwatch total;
  double best = 0;
  for (int i = 0; i < 3 && (i == 0 || total.seconds() < 0.2); ++i) {
    check_interrupt();
    const Stopwatch watch;
    call();
    best = i == 0 ? watch.seconds() : std::min(best, watch.seconds());
  }
  return best;
}

/// Reading and decoding, with as many threads as extraction has.
double time_reading(const data::Dataset &dataset, const data::Preprocess &preprocess,
                    const MeasureOptions &options) {
  const std::vector<std::uint32_t> all = data::record_order(dataset, true, 0);
  const std::vector<std::uint32_t> some(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), options.records)));
  data::LoaderOptions loading;
  loading.threads = options.threads;
  loading.batch = 8;
  loading.on_error = data::OnError::skip;
  const Stopwatch watch;
  data::Loader loader(dataset, some, preprocess, loading);
  std::size_t records = 0;
  while (const auto batch = loader.next()) {
    records += batch->size();
    if (watch.seconds() > options.seconds) break;
  }
  return watch.seconds() / static_cast<double>(std::max<std::size_t>(records, 1));
}

double time_pixels(const SharedGraph &graph) {
  if (graph.preprocess.kind != data::InputKind::image) return 0;
  Shape shape = graph.graph().input().shape;
  shape.insert(shape.begin(), 8);
  const Tensor pixels = Tensor::empty(DType::u8, shape);
  std::fill_n(pixels.data.get(), pixels.bytes(), std::byte{0});
  return fastest([&] { data::normalise(graph.preprocess, pixels); }) / 8;
}

/// The frozen layers of one graph, run by run, scaled to what they take together.
class Layers {
public:
  Layers(const SharedGraph &graph, double seconds) : graph_(graph), seconds_(seconds) {}

  void measure(Costs &costs) {
    if (graph_.graph().nodes.empty()) return;
    const model::FrozenProgram whole(graph_.merged->model(), {0}, graph_.wanted);
    const std::int64_t batch = choose_batch(whole);
    const Tensors records = {profile::random_records(graph_.merged->model().input(), batch)};
    {
      const model::PeakMemory memory;
      whole.run(records);
      costs.inputs[graph_.input()].bytes =
          static_cast<double>(memory.peak_bytes()) / static_cast<double>(batch);
    }
    const double together = fastest([&] { whole.run(records); });
    const double sum = time_runs(records);
    const double scale = std::clamp(together / std::max(sum, 1e-9), 0.25, 2.0) / static_cast<double>(batch);
    for (std::size_t i = 0; i < runs_.size(); ++i) spread(runs_[i], times_[i] * scale, costs);
  }

private:
  /// So that all runs together take about the time that there is.
  std::int64_t choose_batch(const model::FrozenProgram &whole) const {
    const Tensors two = {profile::random_records(graph_.merged->model().input(), 2)};
    whole.run(two);
    const double record = std::max(fastest([&] { whole.run(two); }) / 2, 1e-7);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds_ / (8 * record)), 1, kLargestBatch);
  }

  double time_runs(const Tensors &records) {
    runs_ = profile::choose_runs(graph_.graph(), graph_.wanted, kRuns);
    std::vector<at::Tensor> values(graph_.graph().values.size());
    values[0] = records[0];
    double sum = 0;
    for (const profile::Run &run : runs_) {
      const model::FrozenProgram program(graph_.merged->model(), run.inputs, run.outputs);
      Tensors inputs;
      for (const graph::ValueId id : run.inputs) inputs.push_back(values[at(id)]);
      const Tensors outputs = program.run(inputs); // the warm-up
      for (std::size_t i = 0; i < outputs.size(); ++i) values[at(run.outputs[i])] = outputs[i];
      times_.push_back(fastest([&] { program.run(inputs); }));
      sum += times_.back();
    }
    return sum;
  }

  /// Over the run's nodes by their work, and over a node's outputs evenly.
  void spread(const profile::Run &run, double seconds, Costs &costs) const {
    for (int n = run.first; n < run.last; ++n) {
      const graph::Node &node = graph_.graph().nodes[at(n)];
      const double share =
          run.work > 0 ? graph::work(graph_.graph(), node) / run.work : 1.0 / (run.last - run.first);
      for (const graph::ValueId out : node.outputs)
        costs.values[graph_.value(out).hash] = seconds * share / static_cast<double>(node.outputs.size());
    }
  }

  const SharedGraph &graph_;
  double seconds_;
  std::vector<profile::Run> runs_;
  std::vector<double> times_;
};

bool lacks_values(const Costs &costs, const SharedGraph &graph) {
  const std::vector<bool> depends = graph::depends_on_input(graph.graph());
  for (const graph::Node &node : graph.graph().nodes)
    for (const graph::ValueId out : node.outputs)
      if (depends[at(out)] && costs.values.count(graph.value(out).hash) == 0) return true;
  return false;
}

struct RowTimes {
  double bytes = 0, write = 0, load = 0; // of a row
};

/// Rows of one size there and back, as extraction writes and training reads them.
RowTimes time_rows(const std::string &folder, std::int64_t rows, std::int64_t floats) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  RowTimes times;
  times.bytes = static_cast<double>(floats) * 4;
  shard::ShardMeta meta;
  meta.values = {{"row", hash_text("row"), DType::f32, {floats}}};
  meta.classes = {"one"};
  shard::Shard all;
  Tensor values = Tensor::empty(DType::f32, {rows, floats});
  auto *numbers = reinterpret_cast<float *>(values.data.get());
  for (std::int64_t i = 0; i < rows * floats; ++i) numbers[i] = static_cast<float>(i);
  all.values = {values};
  for (std::int64_t i = 0; i < rows; ++i) {
    all.ids.push_back("row " + std::to_string(i));
    all.records.push_back(hash_text(all.ids.back()));
    all.labels.push_back(0);
    all.rows.push_back(i);
  }
  const Stopwatch writing;
  {
    shard::FolderSink sink(folder, meta);
    sink.append(all);
    sink.finish(0);
  }
  times.write = writing.seconds() / static_cast<double>(rows);
  const Stopwatch loading;
  train::SourceOptions how;
  how.order = 0;
  const auto source = train::shard_source(shard::open_shards(folder), {}, how);
  while (source->next(256)) {
  }
  times.load = loading.seconds() / static_cast<double>(rows);
  fs::remove_all(folder, failed);
  return times;
}

void time_file_system(Costs &costs, const std::string &runs) {
  const std::string folder = (fs::path(runs) / ".measured").string();
  const RowTimes small = time_rows(folder, 1024, 256), large = time_rows(folder, 48, 65536);
  const auto line = [&](double RowTimes::*time) {
    RowCost cost;
    cost.per_byte = std::max(0.0, (large.*time - small.*time) / (large.bytes - small.bytes));
    cost.fixed = std::max(0.0, small.*time - cost.per_byte * small.bytes);
    return cost;
  };
  costs.load = line(&RowTimes::load);
  costs.write = line(&RowTimes::write);
}

} // namespace

bool measure(Costs &costs, const SharedGraphs &graphs, const std::vector<Candidate> &candidates,
             const data::Dataset &dataset, const std::string &folder, const MeasureOptions &options) {
  bool measured = false;
  if (costs.threads != at::get_num_threads()) {
    costs = {};
    costs.threads = at::get_num_threads();
    time_file_system(costs, folder);
    measured = true;
  }
  for (const SharedGraph &graph : graphs.graphs) {
    check_interrupt();
    const auto [input, added] = costs.inputs.emplace(graph.input(), InputCost{});
    if (added) {
      input->second.read = time_reading(dataset, graph.preprocess, options);
      input->second.pixels = time_pixels(graph);
    }
    const bool lacks = lacks_values(costs, graph);
    if (lacks) Layers(graph, options.seconds).measure(costs);
    measured = measured || added || lacks;
  }
  return measure_training(costs, graphs, candidates, options.seconds) || measured;
}

} // namespace tl::select
