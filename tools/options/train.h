// What tl-train can be told.
#pragma once

#include "cli/app.h"
#include "data/source.h"
#include "train/options/flags.h"

#include <cstdint>
#include <string>

namespace tl::tools {

struct TrainArguments {
  std::string plan, features, output, model, data, preprocess, head, train_pattern, head_input, adapters,
      pool = "auto";
  std::string metrics, report;
  std::size_t threads = 0;
  std::int64_t cache = -1; // bytes
  std::int64_t unfreeze = 0;
  bool resume = false, force = false, keep_going = false, by_content = false;
  data::SourceOptions listing;
};

/// The command line of tl-train; cli::run() parses it.
class TrainCommand {
public:
  TrainCommand();
  cli::App app;

  /// After parsing. Throws UsageError.
  TrainArguments arguments() const;
  train::TrainOptions training() const { return flags_.options(); }

private:
  TrainArguments given_;
  train::TrainFlags flags_;
};

} // namespace tl::tools
