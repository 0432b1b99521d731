#include "profile/model.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/utf8.h"
#include "graph/flops.h"
#include "model/peak_memory.h"
#include "model/program.h"
#include "model/tensors.h"
#include "profile/records.h"
#include "profile/segments.h"
#include "profile/training.h"
#include "runtime/clock.h"
#include "runtime/host.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>

namespace tl::profile {

namespace {

/// What timing everything once costs in runs of the whole network: the prefixes and the parts frozen,
/// about 2 each, the parts trained, about 5 (measured on ResNets).
constexpr double kRunsOfOnce = 9;

/// Prefixes that are timed whole.
constexpr std::size_t kAnchors = 5;

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

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A run that is over this soon is repeated for its median whatever the time budget: it costs nothing,
// and one interruption by another process would multiply it.
constexpr double kBriefSeconds = 0.05;
constexpr std::size_t kBriefRuns = 7;

double time_runs(std::size_t repeats, const std::function<void()> &run) {
  std::vector<double> seconds;
  const Stopwatch total;
  while (seconds.size() < repeats || (seconds.size() < kBriefRuns && total.seconds() < kBriefSeconds)) {
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
  std::vector<graph::ValueId> outputs;
  std::unique_ptr<model::FrozenProgram> frozen;
  std::unique_ptr<TrainingStep> trained; // null: it has no gradient

  /// Times it at one batch size; returns its outputs.
  Tensors measure(const Tensors &inputs, std::size_t repeats, std::vector<std::string> &notes) {
    Tensors results;
    {
      const model::PeakMemory memory;
      results = frozen->run(inputs); // the warm-up
      segment.peak_bytes.push_back(bytes_of(inputs) + memory.peak_bytes());
    }
    segment.seconds.push_back(time_runs(repeats, [&] { frozen->run(inputs); }));
    if (trained) measure_training(inputs, (repeats + 1) / 2, notes);
    for (at::Tensor &result : results) result = result.clone(); // out of inference mode, for training
    return results;
  }

  void measure_training(const Tensors &inputs, std::size_t steps, std::vector<std::string> &notes) {
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
    part.outputs = borders[i + 1].values;
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
  if (parts.empty()) throw Error(model.path + ": computes nothing: its output is its input");
  return parts;
}

/// A prefix that is timed whole. A part that runs alone converts its inputs and outputs to and from
/// oneDNN's layout, which inside of a prefix happens only at its end; so the parts' times say how a
/// prefix's time is divided, and the prefix how long it takes.
struct Anchor {
  std::size_t parts = 0; // that it consists of
  std::unique_ptr<model::FrozenProgram> program;
};

/// At about equal shares of the work; the last one is the whole network.
std::vector<Anchor> make_anchors(const model::Model &model, const std::vector<Part> &parts) {
  std::vector<double> work; // up to the end of each part
  for (const Part &part : parts) {
    work.push_back(work.empty() ? 0 : work.back());
    for (int n = part.segment.first; n < part.segment.last; ++n)
      work.back() += graph::flops(model.graph, model.graph.nodes[static_cast<std::size_t>(n)]);
  }
  std::vector<Anchor> anchors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const double share = static_cast<double>(anchors.size() + 1) / kAnchors;
    if (!last && work[i] < share * work.back()) continue;
    check_interrupt();
    anchors.push_back({i + 1, std::make_unique<model::FrozenProgram>(model, std::vector<graph::ValueId>{0},
                                                                     parts[i].outputs)});
  }
  return anchors;
}

class Measuring {
public:
  Measuring(const model::Model &model, const ModelOptions &options, std::vector<std::string> &notes)
      : model_(model), options_(options), notes_(notes), parts_(make_parts(model, notes)),
        anchors_(make_anchors(model, parts_)) {}

  plan::Measurement run() {
    plan::Measurement result;
    result.threads = at::get_num_threads();
    for (std::size_t i = 0; i < options_.batches.size(); ++i) {
      if (!worth_it(i)) continue;
      result.batches.push_back(options_.batches[i]);
      result.whole_seconds.push_back(measure(i));
    }
    for (Part &part : parts_) result.segments.push_back(std::move(part.segment));
    return result;
  }

private:
  /// At one batch size; returns the seconds of the whole network.
  double measure(std::size_t i) {
    const std::int64_t batch = options_.batches[i];
    const Tensors records = {random_records(model_.input(), batch)};
    const model::FrozenProgram &whole = *anchors_.back().program;
    whole.run(records);
    rate_ = time_runs(1, [&] { whole.run(records); }) / static_cast<double>(batch);
    const std::size_t repeats = choose_repeats(i);
    const std::vector<double> seconds = time_anchors(records, repeats);
    Tensors values = records;
    for (Part &part : parts_) values = part.measure(values, repeats, notes_);
    const double sum = scale_parts(seconds);
    notes_.push_back("batch " + std::to_string(batch) + ": the whole network takes " +
                     cli::human_seconds(seconds.back() / static_cast<double>(batch)) +
                     " a record; its parts alone add up to " + rounded(sum / seconds.back()) +
                     " of that, and are scaled to it");
    return seconds.back();
  }

  /// In turns, so that a disturbance that lasts for a while reaches all of them.
  std::vector<double> time_anchors(const Tensors &records, std::size_t repeats) const {
    std::vector<std::vector<double>> seconds(anchors_.size());
    for (const Anchor &anchor : anchors_) anchor.program->run(records); // the warm-up
    for (std::size_t run = 0; run < repeats; ++run)
      for (std::size_t a = 0; a < anchors_.size(); ++a)
        seconds[a].push_back(time_runs(1, [&] { anchors_[a].program->run(records); }));
    std::vector<double> medians;
    for (std::vector<double> &runs : seconds) medians.push_back(median(std::move(runs)));
    return medians;
  }

  /// Makes the parts add up to what the whole network takes, each anchor's to what it takes beyond the one
  /// before it. Returns the sum of the parts as they were.
  double scale_parts(const std::vector<double> &anchor_seconds) {
    double all = 0, scaled = 0, before = 0;
    for (const Part &part : parts_) all += part.segment.seconds.back();
    const double usual = anchor_seconds.back() / std::max(all, 1e-9);
    std::size_t first = 0;
    for (std::size_t a = 0; a < anchors_.size(); ++a) {
      const double until = std::max(anchor_seconds[a], before);
      double sum = 0;
      for (std::size_t i = first; i < anchors_[a].parts; ++i) sum += parts_[i].segment.seconds.back();
      // The difference of two disturbed measurements must not make a part free, nor dear beyond reason.
      const double factor = std::clamp((until - before) / std::max(sum, 1e-9), 0.6 * usual, 1.6 * usual);
      for (; first < anchors_[a].parts; ++first) parts_[first].segment.seconds.back() *= factor;
      scaled += factor * sum;
      before = until;
    }
    for (Part &part : parts_) part.segment.seconds.back() *= anchor_seconds.back() / std::max(scaled, 1e-9);
    return all;
  }

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
  std::size_t choose_repeats(std::size_t i) const {
    const double all = std::accumulate(options_.batches.begin() + static_cast<std::ptrdiff_t>(i),
                                       options_.batches.end(), 0.0);
    const auto batch = static_cast<double>(options_.batches[i]);
    const double share = std::max(left(), 0.0) * batch / all;
    return static_cast<std::size_t>(std::clamp(share / (rate_ * batch) / kRunsOfOnce - 1, 1.0, 9.0));
  }

  const model::Model &model_;
  const ModelOptions &options_;
  std::vector<std::string> &notes_;
  Stopwatch watch_;
  std::vector<Part> parts_;
  std::vector<Anchor> anchors_;
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

} // namespace tl::profile
