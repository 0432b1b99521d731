// One training run in its folder: checkpoint, metrics, model file. What tl-train does.
#pragma once

#include "train/fit.h"
#include "train/run_folder.h"
#include "train/setup.h"

#include <functional>
#include <string>

namespace tl::train {

struct RunOptions {
  bool resume = false;
  std::string metrics_copy;     // file or "-" that gets every metrics line too; empty: none
  std::int64_t cache_bytes = 0; // memory for results of the frozen layers
  /// Lines for people: what happens, and what they should look into.
  std::function<void(const std::string &)> note, warn;
};

struct RunReport {
  json::Value summary;      // the last metrics line
  std::int64_t skipped = 0; // records left out here
};

/// Trains in `folder` and writes its model file, which is then loaded and compared with what was
/// trained. Continues from the folder's checkpoint with options.resume; refuses to if anything that
/// decides the results has changed, naming it. After a kill at any moment the folder can be resumed.
RunReport run_training(const RunFolder &folder, Setup setup, const TrainOptions &training,
                       const RunOptions &options);

} // namespace tl::train
