#include "train/trainer.h"

#include "cli/error.h"
#include "cli/log.h"
#include "graph/graph.h"
#include "model/build.h"
#include "model/tensors.h"

#include <omp.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace tl::train {

namespace {

constexpr std::int64_t kIgnoreNothing = -100; // cross_entropy_loss's default; labels are never negative

std::vector<std::string> parameter_names(const model::Model &model, const model::TrainedProgram &program) {
  std::vector<std::string> names;
  for (const std::vector<int> &indexes : {program.trainable_indexes(), program.statistics_indexes()})
    for (const int index : indexes)
      names.push_back(model.graph.parameters[static_cast<std::size_t>(index)].name);
  return names;
}

// Elements of a result from which on waking other threads for it pays. LibTorch does for each of the many
// short operations of a step, and some of them (the gradients of the loss) do for 10 rows; threads that sleep
// while they wait, as ours do, take longer to wake than a head's whole step.
constexpr std::int64_t kWorthThreads = 1 << 18;

/// While it lives, operators of this thread use no other, but for matrix products, which are OpenBLAS's. Not
/// by at::set_num_threads(), which makes LibTorch's other thread pool anew.
class OneThread {
public:
  explicit OneThread(bool wanted) : before_(wanted ? omp_get_max_threads() : 0) {
    if (before_ > 0) omp_set_num_threads(1);
  }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;
  ~OneThread() {
    if (before_ > 0) omp_set_num_threads(before_);
  }

private:
  int before_;
};

std::int64_t largest_result(const graph::Graph &graph, const std::vector<graph::ValueId> &inputs) {
  std::int64_t largest = 1;
  for (const int node : model::needed_nodes(graph, inputs, {graph.output}))
    for (const graph::ValueId id : graph.nodes[static_cast<std::size_t>(node)].outputs) {
      const graph::Value &value = graph.values[static_cast<std::size_t>(id)];
      if (value.kind == graph::ValueKind::tensor) largest = std::max(largest, element_count(value.shape));
    }
  return largest;
}

bool all_finite(const at::Tensor &tensor) {
  return !tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>();
}

} // namespace

Trainer::Trainer(const model::Model &model, const std::vector<graph::ValueId> &inputs, std::int64_t classes,
                 const TrainOptions &options)
    : model_(model), inputs_(inputs), program_(model, inputs), options_(options), classes_(classes),
      optimizer_(options, program_.trainable()), largest_(largest_result(model.graph, inputs)),
      names_(parameter_names(model, program_)) {
  options_.check();
  if (program_.needs_batch_of_two() && options_.batch < 2)
    throw UsageError("a batch of 1 cannot train a batch-norm layer: give a batch of 2 or more");
}

void Trainer::set_counts(const std::vector<std::int64_t> &counts) {
  if (options_.class_weights == ClassWeights::none) return;
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count);
  std::vector<float> weights;
  for (const std::int64_t count : counts) // a class without records never occurs in the loss
    weights.push_back(count == 0 ? 0.0F
                                 : static_cast<float>(total / (static_cast<double>(counts.size()) *
                                                               static_cast<double>(count))));
  class_weights_ = at::tensor(weights);
}

void Trainer::feed(const Rows &rows) {
  if (pending_.records.empty()) {
    pending_ = rows;
  } else {
    for (std::size_t v = 0; v < rows.values.size(); ++v)
      pending_.values[v] = at::cat({pending_.values[v], rows.values[v]});
    pending_.labels = at::cat({pending_.labels, rows.labels});
    pending_.records.insert(pending_.records.end(), rows.records.begin(), rows.records.end());
  }
  // With a batch-norm, a batch waits until two more records prove that none will be left alone.
  const std::int64_t ahead = program_.needs_batch_of_two() ? 2 : 0;
  while (pending_.size() >= options_.batch + ahead) step(options_.batch);
}

EpochLoss Trainer::end_epoch() {
  if (pending_.size() > 0) {
    if (program_.needs_batch_of_two() && pending_.size() == 1)
      throw Error(
          "one training record is too few for a batch-norm layer that trains: add records, or lower the "
          "validation share");
    const bool joins = program_.needs_batch_of_two() && pending_.size() == options_.batch + 1;
    while (pending_.size() > 0) step(joins ? pending_.size() : std::min(pending_.size(), options_.batch));
  }
  if (running_.records == 0) throw Error("no records to train on");
  check_parameters();
  EpochLoss done = running_;
  done.loss /= weight_sum_;
  running_ = {};
  weight_sum_ = 0;
  ++epoch_;
  return done;
}

void Trainer::step(std::int64_t records) {
  std::vector<at::Tensor> values, rest;
  for (const at::Tensor &value : pending_.values) {
    values.push_back(value.narrow(0, 0, records));
    rest.push_back(value.narrow(0, records, value.size(0) - records));
  }
  const at::Tensor labels = pending_.labels.narrow(0, 0, records);
  const double loss = backward(values, labels);
  const double weight = class_weights_.defined()
                            ? class_weights_.index_select(0, labels).sum(at::kDouble).item<double>()
                            : static_cast<double>(records);
  if (options_.clip_norm > 0) optimizer_.clip(options_.clip_norm);
  const double lr = options_.lr * options_.schedule.factor_at(epoch_, options_.epochs) *
                    warmup_factor(optimizer_.steps(), options_.warmup);
  optimizer_.step(lr);
  running_.loss += loss * weight;
  weight_sum_ += weight;
  running_.records += records;
  ++running_.steps;
  running_.lr = lr;
  pending_.values = std::move(rest);
  pending_.labels = pending_.labels.narrow(0, records, pending_.labels.size(0) - records);
  pending_.records.erase(pending_.records.begin(), pending_.records.begin() + records);
}

double Trainer::backward(const std::vector<at::Tensor> &values, const at::Tensor &labels) {
  const std::int64_t records = labels.size(0);
  const at::AutoGradMode gradients(true);
  const OneThread alone(largest_ * records < kWorthThreads); // the optimiser knows better what it needs
  const at::Tensor output = program_.run(values, true);
  if (output.dim() != 2 || output.size(0) != records || output.size(1) != classes_)
    throw Error("the model does not give one vector of " + std::to_string(classes_) + " numbers per record");
  const at::Tensor loss = at::cross_entropy_loss(output, labels, class_weights_, at::Reduction::Mean,
                                                 kIgnoreNothing, options_.label_smoothing);
  const auto value = loss.item<double>();
  if (!std::isfinite(value)) not_finite(output.detach(), records);
  optimizer_.zero_grad();
  loss.backward();
  return value;
}

void Trainer::not_finite(const at::Tensor &logits, std::int64_t records) const {
  constexpr std::size_t kNamed = 5;
  const at::Tensor fine = at::isfinite(logits).all(1).contiguous();
  std::string names;
  std::size_t found = 0, named = 0;
  for (std::int64_t row = 0; row < records; ++row) {
    if (fine.data_ptr<bool>()[row]) continue;
    if (++found > kNamed) continue;
    names += (named++ ? ", " : "") + cli::printable(pending_.records[static_cast<std::size_t>(row)]->id);
  }
  if (found > named) names += " and " + std::to_string(found - named) + " more";
  throw NotFinite("epoch " + std::to_string(epoch_ + 1) + ", step " + std::to_string(optimizer_.steps() + 1) +
                  ": the loss is not a finite number" +
                  (found ? "; so are the outputs for " + std::to_string(found) + " of " +
                               std::to_string(records) + " records: " + names
                         : "") +
                  "; lower the learning rate (now " + json::compact(options_.lr) +
                  "), or look at these records");
}

void Trainer::check_parameters() const {
  const std::vector<at::Tensor> tensors = current();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!all_finite(tensors[i]))
      throw NotFinite("epoch " + std::to_string(epoch_ + 1) + ", step " + std::to_string(optimizer_.steps()) +
                      ": parameter " + names_[i] + " is not finite any more; lower the learning rate");
}

std::vector<at::Tensor> Trainer::current() const {
  std::vector<at::Tensor> tensors;
  for (const std::vector<at::Tensor> &part : {program_.trainable(), program_.statistics()})
    for (const at::Tensor &tensor : part) tensors.push_back(tensor.detach());
  return tensors;
}

at::Tensor Trainer::logits(const std::vector<at::Tensor> &values) const {
  const at::NoGradGuard no_grad;
  return program_.run(values, false);
}

void Trainer::evaluate(const Rows &rows, Evaluation &into) const {
  into.add(logits(rows.values), rows.labels);
}

bool Trainer::judge(const std::optional<Evaluation> &validation) {
  double score = 0;
  if (validation) {
    if (!std::isfinite(validation->loss()))
      throw NotFinite("epoch " + std::to_string(epoch_) +
                      ": the validation loss is not a finite number; lower the "
                      "learning rate, or look for records with values that are not numbers");
    score = validation->score(options_.monitor);
  }
  if (best_epoch_ != 0 && validation && score <= best_score_) return false;
  best_epoch_ = epoch_;
  best_score_ = score;
  best_.clear();
  for (const at::Tensor &tensor : current()) best_.push_back(tensor.clone());
  return true;
}

bool Trainer::out_of_patience() const {
  return options_.patience > 0 && best_epoch_ > 0 && epoch_ - best_epoch_ >= options_.patience;
}

bool Trainer::finished() const { return epoch_ >= options_.epochs || out_of_patience(); }

} // namespace tl::train
