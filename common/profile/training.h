// One segment of a network made trainable, to time its share of a training step.
#pragma once

#include "graph/cut.h"
#include "model/program.h"

#include <optional>
#include <vector>

namespace tl::profile {

class TrainingStep {
public:
  /// From the values of `from` to those of `to`, with every parameter between them trainable.
  /// Throws Error if a gradient cannot pass.
  TrainingStep(const model::Model &model, const graph::Cut &from, const graph::Cut &to);

  /// Forward and backward, to the parameters and to the inputs (but not to the records themselves).
  void run(const std::vector<at::Tensor> &inputs);

private:
  std::vector<bool> passes_gradient_; // for each input
  std::optional<model::TrainedProgram> program_;
};

} // namespace tl::profile
