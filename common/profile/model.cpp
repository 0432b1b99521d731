#include "profile/model.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/utf8.h"
#include "model/peak_memory.h"
#include "model/program.h"
#include "model/tensors.h"
#include "profile/anchors.h"
#include "profile/executions.h"
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

/// What timing everything once costs in runs of the whole network: the prefixes, the suffixes and the parts
/// frozen, about 2 each, the parts trained, about 5 (measured on ResNets).
constexpr double kRunsOfOnce = 11;

constexpr std::size_t kMostRounds = 15;

constexpr double kExecutionShare = 0.15; // of the time, for finding out how to run the network
constexpr std::int64_t kExecutionBatch = 8;

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

// A run that is over this soon is repeated whatever the time budget: it costs nothing, and one interruption
// by another process would multiply it. Of prefixes and suffixes more is brief: one record does not make up
// for weights that other programs have driven out of the caches, as a stream of records does.
constexpr double kBriefSeconds = 0.02, kBriefAnchorSeconds = 0.15;
constexpr std::size_t kBriefRuns = 3;

/// Seconds of the least disturbed of some runs.
double time_run(const std::function<void()> &run, double brief = kBriefSeconds) {
  double least = 0;
  const Stopwatch total;
  for (std::size_t i = 0; i == 0 || (i < kBriefRuns && total.seconds() < brief); ++i) {
    check_interrupt();
    const Stopwatch watch;
    run();
    least = i == 0 ? watch.seconds() : std::min(least, watch.seconds());
  }
  return least;
}

/// Of several rounds: what the least disturbed ones say, without staking all on a single one.
double low_quartile(std::vector<double> values) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

std::int64_t bytes_of(const Tensors &tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor &tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// Seconds at one batch size, of each round.
struct Rounds {
  std::vector<double> runs, steps; // frozen, trained
};

/// A segment ready to run.
struct Part {
  plan::Segment segment;
  std::vector<graph::ValueId> outputs;
  std::unique_ptr<model::FrozenProgram> frozen;
  std::unique_ptr<TrainingStep> trained; // null: it has no gradient

  /// The first run at a batch size: it fills caches, and tells the memory. Returns the outputs.
  Tensors warm_up(const Tensors &inputs) {
    const model::PeakMemory memory;
    Tensors results = frozen->run(inputs);
    segment.peak_bytes.push_back(bytes_of(inputs) + memory.peak_bytes());
    return results;
  }

  /// One round; returns the outputs.
  Tensors measure(const Tensors &inputs, bool step, Rounds &rounds, std::vector<std::string> &notes) {
    Tensors results;
    rounds.runs.push_back(time_run([&] { results = frozen->run(inputs); }));
    if (trained && step) measure_training(inputs, rounds, notes);
    return results;
  }

  void measure_training(const Tensors &inputs, Rounds &rounds, std::vector<std::string> &notes) {
    try {
      rounds.steps.push_back(time_run([&] { trained->run(inputs); }));
    } catch (const Interrupted &) {
      throw;
    } catch (const Error &error) { // only the backward pass of some operators tells
      notes.push_back(error.what());
      trained.reset();
    }
  }
};

std::vector<Part> make_parts(const model::Model &model, const std::vector<graph::Cut> &borders,
                             graph::Execution execution, std::vector<std::string> &notes) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    check_interrupt();
    Part part;
    part.outputs = borders[i + 1].values;
    part.segment.first = borders[i].position;
    part.segment.last = borders[i + 1].position;
    part.frozen =
        std::make_unique<model::FrozenProgram>(model, borders[i].values, borders[i + 1].values, execution);
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

class Measuring {
public:
  Measuring(const model::Model &model, const ModelOptions &options, graph::Execution execution,
            std::vector<std::string> &notes)
      : model_(model), options_(options), notes_(notes) {
    const std::vector<graph::Cut> borders = choose_borders(model.graph);
    parts_ = make_parts(model, borders, execution, notes);
    anchors_ = make_anchors(model, borders, execution);
  }

  plan::Measurement run() {
    for (const std::int64_t batch : options_.batches)
      if (worth_it(batch)) prepare(batch);
    measure_rounds();
    plan::Measurement result;
    result.threads = at::get_num_threads();
    for (Size &size : sizes_) {
      result.batches.push_back(size.batch);
      result.whole_seconds.push_back(conclude(size));
    }
    for (Part &part : parts_) result.segments.push_back(std::move(part.segment));
    return result;
  }

private:
  /// A batch size.
  struct Size {
    std::int64_t batch = 0;
    Tensors records;
    double run = 0; // seconds of the whole frozen network, as first measured
    std::size_t rounds = 0;
    std::vector<Tensors> borders;                        // the values at each anchor
    std::vector<std::vector<double>> prefixes, suffixes; // of each anchor, seconds of each round
    std::vector<Rounds> parts;
  };

  /// The first runs, which fill caches and tell memory and about the time.
  void prepare(std::int64_t batch) {
    Size size;
    size.batch = batch;
    size.records = {random_records(model_.input(), batch)};
    size.prefixes.resize(anchors_.size());
    size.suffixes.resize(anchors_.size());
    size.parts.resize(parts_.size());
    for (const Anchor &anchor : anchors_) size.borders.push_back(anchor.prefix->run(size.records));
    for_each_suffix(
        size, [](const model::FrozenProgram &suffix, const Tensors &values, auto &) { suffix.run(values); });
    Tensors values = size.records;
    for (Part &part : parts_) values = part.warm_up(values);
    size.run = time_run([&] { anchors_.back().prefix->run(size.records); });
    sizes_.push_back(std::move(size));
  }

  template <class Visit> void for_each_suffix(Size &size, const Visit &visit) {
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a)
      visit(*anchors_[a].suffix, size.borders[a], size.suffixes[a]);
  }

  /// Everything in turns over the time that is left, so that a disturbance that lasts for a while reaches
  /// all of it, and no batch size, anchor or part alone.
  void measure_rounds() {
    choose_rounds();
    std::size_t most = 1;
    for (const Size &size : sizes_) most = std::max(most, size.rounds);
    for (std::size_t round = 0; round < most; ++round)
      for (Size &size : sizes_)
        if (round * size.rounds / most != (round + 1) * size.rounds / most) measure_round(size);
  }

  void measure_round(Size &size) {
    for (std::size_t a = 0; a < anchors_.size(); ++a)
      size.prefixes[a].push_back(
          time_run([&] { anchors_[a].prefix->run(size.records); }, kBriefAnchorSeconds));
    for_each_suffix(size, [](const model::FrozenProgram &suffix, const Tensors &values, auto &seconds) {
      seconds.push_back(time_run([&] { suffix.run(values); }, kBriefAnchorSeconds));
    });
    const bool step = size.parts.front().runs.size() % 2 == 0; // it takes long: half of the rounds have one
    Tensors values = size.records;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      values = parts_[i].measure(values, step, size.parts[i], notes_);
  }

  /// What the rounds of a batch size say. Returns the seconds of the whole network.
  double conclude(Size &size) {
    std::vector<double> alone;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      alone.push_back(low_quartile(std::move(size.parts[i].runs)));
      if (parts_[i].trained)
        parts_[i].segment.train_seconds.push_back(low_quartile(std::move(size.parts[i].steps)));
    }
    const double whole = fit(size, alone);
    notes_.push_back("batch " + std::to_string(size.batch) + ": the whole network takes " +
                     cli::human_seconds(whole / static_cast<double>(size.batch)) +
                     " a record; its parts alone add up to " +
                     rounded(std::accumulate(alone.begin(), alone.end(), 0.0) / whole) +
                     " of that, and are scaled to it");
    return whole;
  }

  /// What the parts take in a prefix, and in a suffix. Returns the seconds of the whole network.
  double fit(Size &size, std::vector<double> alone) {
    std::vector<std::size_t> before, after = {parts_.size()};
    std::vector<double> prefixes, suffixes;
    for (std::size_t a = 0; a < anchors_.size(); ++a) {
      before.push_back(anchors_[a].parts);
      prefixes.push_back(low_quartile(std::move(size.prefixes[a])));
    }
    suffixes.push_back(prefixes.back());
    for (std::size_t a = 0; a + 1 < anchors_.size(); ++a) {
      after.push_back(parts_.size() - anchors_[a].parts);
      suffixes.push_back(low_quartile(std::move(size.suffixes[a])));
    }
    const std::vector<double> in_prefix = fit_parts(alone, before, prefixes);
    std::reverse(alone.begin(), alone.end());
    std::reverse(after.begin(), after.end());
    std::reverse(suffixes.begin(), suffixes.end());
    const std::vector<double> in_suffix = fit_parts(std::move(alone), after, suffixes);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].segment.seconds.push_back(in_prefix[i]);
      parts_[i].segment.suffix_seconds.push_back(in_suffix[parts_.size() - 1 - i]);
    }
    return prefixes.back();
  }

  double left() const { return std::max(options_.seconds - watch_.seconds(), 0.0); }

  /// Once one size has been run, the others must fit the time that is left, about.
  bool worth_it(std::int64_t batch) {
    if (options_.all_batches || sizes_.empty()) return true;
    const double rate = sizes_.back().run / static_cast<double>(sizes_.back().batch);
    const double least = rate * static_cast<double>(batch) * (kRunsOfOnce + 3);
    if (least <= left()) return true;
    notes_.push_back("batch " + std::to_string(batch) + " left out: it would take about " +
                     cli::human_seconds(least) + "; ask for it with --batches, or give more --seconds");
    return false;
  }

  /// So that each size gets a share of the time that is left: proportional to the batch.
  void choose_rounds() {
    double all = 0;
    for (const Size &size : sizes_) all += static_cast<double>(size.batch);
    const double time = left();
    for (Size &size : sizes_) {
      const double share = time * static_cast<double>(size.batch) / all;
      size.rounds = static_cast<std::size_t>(
          std::clamp(share / std::max(size.run, 1e-9) / kRunsOfOnce, 1.0, double(kMostRounds)));
    }
  }

  const model::Model &model_;
  const ModelOptions &options_;
  std::vector<std::string> &notes_;
  Stopwatch watch_;
  std::vector<Part> parts_;
  std::vector<Anchor> anchors_;
  std::vector<Size> sizes_;
};

/// Finds out how the network is best run, then measures it so.
plan::Measurement measure_fastest(const model::Model &model, ModelOptions options,
                                  std::vector<std::string> &notes) {
  const Stopwatch watch;
  ExecutionOptions trying;
  trying.allow_bf16 = options.allow_bf16;
  trying.batch = std::min(kExecutionBatch, options.batches.back());
  trying.seconds = kExecutionShare * options.seconds;
  const std::vector<graph::Cut> borders = choose_borders(model.graph);
  const std::vector<plan::ExecutionCost> tried =
      measure_executions(model, borders.back().values, trying, notes);
  const graph::Execution execution = fastest(tried);
  options.seconds = std::max(0.0, options.seconds - watch.seconds());
  plan::Measurement measured = Measuring(model, options, execution, notes).run();
  measured.execution = execution;
  measured.executions = tried;
  return measured;
}

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
  result.profile.measured = measure_fastest(model, options, result.notes);
  at::set_num_threads(before);
  return result;
}

} // namespace tl::profile
