#include "train/metrics.h"

#include <torch/torch.h>

namespace tl::train {

Evaluation::Evaluation(std::int64_t classes)
    : right_(static_cast<std::size_t>(classes)), total_(static_cast<std::size_t>(classes)) {}

void Evaluation::add(const at::Tensor &logits, const at::Tensor &labels) {
  const at::NoGradGuard no_grad;
  const at::Tensor scores = at::log_softmax(logits.detach(), 1);
  loss_ -= scores.gather(1, labels.unsqueeze(1)).sum(at::kDouble).item<double>();
  const at::Tensor hits = logits.argmax(1).eq(labels).contiguous();
  const at::Tensor dense = labels.contiguous();
  const auto *label = dense.data_ptr<std::int64_t>();
  const auto *hit = hits.data_ptr<bool>();
  for (std::int64_t i = 0; i < dense.size(0); ++i) {
    ++total_[static_cast<std::size_t>(label[i])];
    right_[static_cast<std::size_t>(label[i])] += hit[i];
  }
  records_ += dense.size(0);
}

double Evaluation::loss() const { return records_ ? loss_ / static_cast<double>(records_) : 0; }

double Evaluation::accuracy() const {
  std::int64_t right = 0;
  for (const std::int64_t count : right_) right += count;
  return records_ ? static_cast<double>(right) / static_cast<double>(records_) : 0;
}

double Evaluation::balanced_accuracy() const {
  double sum = 0;
  int present = 0;
  for (std::size_t c = 0; c < total_.size(); ++c) {
    const std::optional<double> value = recall(static_cast<std::int64_t>(c));
    if (value) sum += *value;
    present += value.has_value();
  }
  return present ? sum / present : 0;
}

std::optional<double> Evaluation::recall(std::int64_t label) const {
  const auto c = static_cast<std::size_t>(label);
  if (total_[c] == 0) return std::nullopt;
  return static_cast<double>(right_[c]) / static_cast<double>(total_[c]);
}

double Evaluation::score(Monitor monitor) const {
  switch (monitor) {
  case Monitor::loss:
    return -loss();
  case Monitor::accuracy:
    return accuracy();
  case Monitor::balanced_accuracy:
    return balanced_accuracy();
  }
  return -loss();
}

json::Value Evaluation::to_json() const {
  json::Value recalls = json::Value::array();
  for (std::size_t c = 0; c < total_.size(); ++c) {
    const std::optional<double> value = recall(static_cast<std::int64_t>(c));
    recalls.push_back(value ? json::Value(*value) : json::Value(nullptr));
  }
  return {{"records", records_},
          {"loss", loss()},
          {"accuracy", accuracy()},
          {"balanced_accuracy", balanced_accuracy()},
          {"recall", recalls}};
}

} // namespace tl::train
