// What a training run tells: metrics lines for programs, sentences for people.
#pragma once

#include "train/fit.h"
#include "train/setup.h"

#include <string>
#include <vector>

namespace tl::train {

/// {"format": "tl-metrics", "version": 1, "event": event}, to be added to.
json::Value metrics_line(const char *event);

json::Value start_line(const Setup &setup, const TrainOptions &options, std::int64_t resumed_after);
json::Value epoch_line(const EpochResult &result, std::int64_t steps);

/// "epoch 3/10: train loss 0.4123, validation loss 0.3987, accuracy 87.5 %, ..."
std::string describe(const EpochResult &result, std::int64_t epochs);
/// "recall: cat 91.2 %, dog 84.0 %", of an Evaluation::to_json().
std::string describe_recall(const json::Value &validation, const std::vector<std::string> &classes);

/// Class names as JSON holds them.
json::Value classes_json(const std::vector<std::string> &classes);

/// The document inside the model file, schemas/model.schema.json.
json::Value model_document(const Setup &setup, const TrainOptions &options, std::int64_t best_epoch,
                           const json::Value &validation);

} // namespace tl::train
