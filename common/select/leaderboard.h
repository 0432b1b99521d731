// The ranking of an experiment's candidates.
#pragma once

#include "select/experiment.h"
#include "select/trial.h"

#include <string>
#include <vector>

namespace tl::select {

struct Row {
  std::size_t candidate = 0; // index
  Trial trial;
};

/// Best score first, equal scores by the lower loss, then in the order of the experiment; failed ones last.
std::vector<Row> rank(std::vector<Trial> trials);

/// A table for people, one candidate a line.
std::string table(const std::vector<Row> &rows, train::Monitor metric);

} // namespace tl::select
