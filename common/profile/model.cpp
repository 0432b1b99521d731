#include "profile/model.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/utf8.h"
#include "model/program.h"
#include "model/tensors.h"
#include "profile/memory.h"
#include "profile/segments.h"
#include "profile/training.h"
#include "runtime/clock.h"
#include "runtime/host.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace tl::profile {

namespace {

/// What timing one segment once costs in runs of it: frozen 1, trained about 5 (measured on ResNets).
constexpr double kRunsOfOnce = 6;

using Tensors = std::vector<at::Tensor>;

Digest hash_file(const std::string &path) {
  const cli::Descriptor file = cli::open_input(path);
  std::vector<char> block(1 << 20);
  Hasher hasher;
  for (;;) {
    const std::size_t n = cli::read_full(file.get(), block.data(), block.size(), path);
    hasher.raw(block.data(), n);
    if (n < block.size()) return hasher.digest();
  }
}

at::Tensor random_records(const model::InputSpec &input, std::int64_t batch) {
  std::vector<std::int64_t> sizes = input.shape;
  sizes.insert(sizes.begin(), batch);
  // Token ids 0 and 1 exist in every vocabulary.
  return input.dtype == DType::i64 ? torch::randint(0, 2, sizes, at::kLong) : torch::randn(sizes);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double time_runs(int repeats, const std::function<void()> &run) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    check_interrupt();
    const Stopwatch watch;
    run();
    seconds.push_back(watch.seconds());
  }
  return median(std::move(seconds));
}

std::int64_t bytes_of(const Tensors &tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor &tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// A segment ready to run.
struct Part {
  plan::Segment segment;
  std::unique_ptr<model::FrozenProgram> frozen;
  std::unique_ptr<TrainingStep> trained; // null: it has no gradient

  /// Times it at one batch size; returns its outputs.
  Tensors measure(const Tensors &inputs, int repeats, std::vector<std::string> &notes) {
    Tensors outputs;
    {
      const PeakMemory memory;
      outputs = frozen->run(inputs); // the warm-up
      segment.peak_bytes.push_back(bytes_of(inputs) + memory.peak_bytes());
    }
    segment.seconds.push_back(time_runs(repeats, [&] { frozen->run(inputs); }));
    if (trained) measure_training(inputs, (repeats + 1) / 2, notes);
    for (at::Tensor &output : outputs) output = output.clone(); // out of inference mode, for training
    return outputs;
  }

  void measure_training(const Tensors &inputs, int steps, std::vector<std::string> &notes) {
    try {
      if (steps > 1) trained->run(inputs);
      segment.train_seconds.push_back(time_runs(steps, [&] { trained->run(inputs); }));
    } catch (const Interrupted &) {
      throw;
    } catch (const Error &error) { // only the backward pass of some operators tells
      notes.push_back(error.what());
      segment.train_seconds.clear();
      trained.reset();
    }
  }
};

std::vector<Part> make_parts(const model::Model &model, std::vector<std::string> &notes) {
  const std::vector<graph::Cut> borders = choose_borders(model.graph);
  std::vector<Part> parts;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    check_interrupt();
    Part part;
    part.segment.first = borders[i].position;
    part.segment.last = borders[i + 1].position;
    part.frozen = std::make_unique<model::FrozenProgram>(model, borders[i].values, borders[i + 1].values);
    try {
      part.trained = std::make_unique<TrainingStep>(model, borders[i], borders[i + 1]);
    } catch (const Error &error) {
      notes.push_back(error.what());
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

class Measuring {
public:
  Measuring(const model::Model &model, const ModelOptions &options, std::vector<std::string> &notes)
      : model_(model), options_(options), notes_(notes), parts_(make_parts(model, notes)),
        whole_(model, {0}, {model.graph.output}) {}

  plan::Measurement run() {
    plan::Measurement result;
    result.threads = at::get_num_threads();
    for (std::size_t i = 0; i < options_.batches.size(); ++i) {
      const std::int64_t batch = options_.batches[i];
      if (!worth_it(i)) continue;
      const Tensors records = {random_records(model_.input(), batch)};
      whole_.run(records);
      const Stopwatch once;
      whole_.run(records);
      rate_ = once.seconds() / static_cast<double>(batch);
      const int repeats = choose_repeats(i);
      result.batches.push_back(batch);
      result.whole_seconds.push_back(time_runs(repeats, [&] { whole_.run(records); }));
      Tensors values = records;
      for (Part &part : parts_) values = part.measure(values, repeats, notes_);
    }
    for (Part &part : parts_) result.segments.push_back(std::move(part.segment));
    return result;
  }

private:
  double left() const { return options_.seconds - watch_.seconds(); }

  /// Once one size is measured, the others must fit the time that is left, about.
  bool worth_it(std::size_t i) {
    if (options_.all_batches || rate_ == 0) return true;
    const double least = rate_ * static_cast<double>(options_.batches[i]) * (kRunsOfOnce + 3);
    if (least <= std::max(left(), 0.0)) return true;
    notes_.push_back("batch " + std::to_string(options_.batches[i]) + " left out: it would take about " +
                     cli::human_seconds(least) + "; ask for it with --batches, or give more --seconds");
    return false;
  }

  /// So that this size gets its share of the time that is left: proportional to the batch.
  int choose_repeats(std::size_t i) const {
    const double all = std::accumulate(options_.batches.begin() + static_cast<std::ptrdiff_t>(i),
                                       options_.batches.end(), 0.0);
    const auto batch = static_cast<double>(options_.batches[i]);
    const double share = std::max(left(), 0.0) * batch / all;
    return static_cast<int>(std::clamp(share / (rate_ * batch) / kRunsOfOnce - 1, 1.0, 9.0));
  }

  const model::Model &model_;
  const ModelOptions &options_;
  std::vector<std::string> &notes_;
  Stopwatch watch_;
  std::vector<Part> parts_;
  model::FrozenProgram whole_;
  double rate_ = 0; // seconds a record of the whole frozen network, as last measured
};

} // namespace

MeasuredModel measure_model(const model::Model &model, const data::Preprocess &preprocess,
                            const ModelOptions &options) {
  for (std::size_t i = 0; i < options.batches.size(); ++i)
    if (options.batches[i] < 1 || (i > 0 && options.batches[i] <= options.batches[i - 1]))
      throw UsageError("batch sizes must be positive and ascending");
  if (!cli::is_utf8(model.path)) // plans name it as JSON, for programs to open
    throw UsageError(model.path + ": the name of a model must be UTF-8; rename the file");
  if (options.batches.empty()) throw UsageError("no batch size to measure");
  const int before = at::get_num_threads();
  at::set_num_threads(options.threads > 0 ? options.threads : usable_cores());
  MeasuredModel result;
  result.profile.path = model.path;
  result.profile.file_digest = hash_file(model.path);
  result.profile.preprocess = data::to_json(preprocess);
  result.profile.graph = model.graph;
  result.profile.measured = Measuring(model, options, result.notes).run();
  at::set_num_threads(before);
  return result;
}

std::vector<double> sum_ratios(const plan::Measurement &measured) {
  std::vector<double> ratios;
  for (std::size_t k = 0; k < measured.batches.size(); ++k) {
    double sum = 0;
    for (const plan::Segment &segment : measured.segments) sum += segment.seconds[k];
    ratios.push_back(measured.whole_seconds[k] > 0 ? sum / measured.whole_seconds[k] : 1);
  }
  return ratios;
}

} // namespace tl::profile
