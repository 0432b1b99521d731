// RUN/metrics.jsonl: one JSON document a line, each of the format "tl-metrics".
#pragma once

#include "cli/io.h"
#include "json/document.h"

#include <string>

namespace tl::train {

class MetricsLog {
public:
  /// Keeps of an earlier log what happened up to `epoch`; a torn last line goes. `copy`: every new
  /// line is written there as well ("-" is stdout; empty: nowhere).
  MetricsLog(const std::string &path, std::int64_t epoch, const std::string &copy);

  /// Checks the line against schemas/metrics.schema.json and appends it in one write.
  void add(const json::Value &line);

private:
  std::string path_, copy_path_;
  cli::Descriptor file_, copy_;
};

/// The lines of `text` that a run resumed after `epoch` epochs keeps.
std::string kept_lines(const std::string &text, std::int64_t epoch);

} // namespace tl::train
