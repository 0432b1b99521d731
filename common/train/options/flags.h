// TrainOptions on a command line.
#pragma once

#include "train/options/options.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tl::train {

/// Adds --epochs, --batch, --optimizer, ... to `app`, one for each field of TrainOptions.
class TrainFlags {
public:
  explicit TrainFlags(CLI::App &app);
  /// After parsing: what was given, over the defaults. Throws UsageError.
  TrainOptions options() const;

private:
  std::shared_ptr<json::Value> given_;
};

} // namespace tl::train
