// Learning-rate schedules. The rate is a function of the epoch and the step, never of a history, so
// that a resumed run continues with exactly the same rates, and never of the number of records, which
// nobody knows while the first epoch still arrives.
#pragma once

#include <cstdint>
#include <string>

namespace tl::train {

struct Schedule {
  enum class Kind {
    constant,
    cosine, // half a cosine from 1 in the first epoch towards 0 after the last (SGDR without restarts)
    step,   // times `factor` every `every` epochs
  };
  Kind kind = Kind::constant;
  std::int64_t every = 0;
  double factor = 0.1;

  /// "constant", "cosine", "step:10", "step:10:0.5". Throws UsageError.
  static Schedule parse(const std::string &text);
  std::string text() const;

  /// What the base rate is multiplied by. `epoch` counts from 0.
  double factor_at(std::int64_t epoch, std::int64_t epochs) const;
};

/// Linear rise over the first `warmup` steps of a training; `step` counts from 0 over all epochs.
double warmup_factor(std::int64_t step, std::int64_t warmup);

} // namespace tl::train
