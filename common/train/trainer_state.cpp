// The state of a trainer between epochs, and the model it has made.
#include "cli/error.h"
#include "model/tensors.h"
#include "train/trainer.h"

#include <torch/torch.h>

#include <map>

namespace tl::train {

namespace {

/// Copies `from` into `into`, which must have its type and shape.
void load(const std::map<std::string, const Tensor *> &tensors, const std::string &name, at::Tensor into,
          const std::string &origin) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw FormatError(origin + ": tensor '" + name + "' is missing");
  const at::Tensor from = model::to_torch(*found->second);
  if (from.sizes() != into.sizes() || from.scalar_type() != into.scalar_type())
    throw FormatError(origin + ": tensor '" + name + "' has another type or shape than the model's");
  const at::NoGradGuard no_grad;
  into.copy_(from);
}

std::int64_t count(const json::Value &progress, const char *key, const std::string &origin) {
  if (!progress.contains(key) || !progress.at(key).is_number_integer() ||
      progress.at(key).get<std::int64_t>() < 0)
    throw FormatError(origin + ": progress: '" + key + "' must be a whole number >= 0");
  return progress.at(key).get<std::int64_t>();
}

} // namespace

TrainerState Trainer::state() const {
  TrainerState state;
  const auto add = [&](const std::string &group, const std::string &name, const at::Tensor &tensor) {
    state.tensors.push_back({group + "." + name, model::from_torch(tensor.clone())});
  };
  const std::vector<at::Tensor> now = current();
  for (std::size_t i = 0; i < now.size(); ++i) add("now", names_[i], now[i]);
  // While the current epoch is the best, one copy says both.
  if (best_epoch_ != epoch_)
    for (std::size_t i = 0; i < best_.size(); ++i) add("best", names_[i], best_[i]);
  for (const Optimizer::Slot &slot : optimizer_.slots())
    for (std::size_t i = 0; i < slot.tensors.size(); ++i) add(slot.name, names_[i], slot.tensors[i]);
  state.progress = {{"epoch", epoch_},
                    {"steps", optimizer_.steps()},
                    {"best_epoch", best_epoch_},
                    {"best_score", best_score_}};
  return state;
}

void Trainer::restore(const TrainerState &state, const std::string &origin) {
  std::map<std::string, const Tensor *> tensors;
  for (const shard::NamedTensor &named : state.tensors) tensors[named.name] = &named.tensor;
  const std::int64_t epoch = count(state.progress, "epoch", origin);
  const std::int64_t steps = count(state.progress, "steps", origin);
  const std::int64_t best_epoch = count(state.progress, "best_epoch", origin);
  if (best_epoch > epoch || !state.progress.contains("best_score") ||
      !state.progress.at("best_score").is_number())
    throw FormatError(origin + ": progress: the best epoch makes no sense");
  const std::vector<at::Tensor> now = current();
  for (std::size_t i = 0; i < now.size(); ++i) load(tensors, "now." + names_[i], now[i], origin);
  for (Optimizer::Slot &slot : optimizer_.slots())
    for (std::size_t i = 0; i < slot.tensors.size(); ++i)
      load(tensors, slot.name + "." + names_[i], slot.tensors[i], origin);
  best_.clear();
  const std::string group = best_epoch == epoch ? "now." : "best.";
  for (std::size_t i = 0; best_epoch > 0 && i < now.size(); ++i) {
    best_.push_back(now[i].clone());
    load(tensors, group + names_[i], best_.back(), origin);
  }
  optimizer_.set_steps(steps);
  epoch_ = epoch;
  best_epoch_ = best_epoch;
  best_score_ = state.progress.at("best_score").get<double>();
}

model::Model Trainer::best() const {
  if (best_epoch_ == 0) throw Error("no epoch has been trained");
  model::Model result = model_;
  std::size_t next = 0;
  for (const std::vector<int> &indexes : {program_.trainable_indexes(), program_.statistics_indexes()})
    for (const int index : indexes) result.parameters[static_cast<std::size_t>(index)] = best_[next++];
  return result;
}

at::Tensor Trainer::best_logits(const std::vector<at::Tensor> &values) const {
  // A program of its own: the trainer's parameters stay those of the last epoch.
  const at::NoGradGuard no_grad;
  return model::TrainedProgram(best(), inputs_).run(values, false);
}

} // namespace tl::train
