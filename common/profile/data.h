// How fast records are read and decoded on this machine.
#pragma once

#include "data/source.h"
#include "plan/profile.h"

#include <string>
#include <vector>

namespace tl::profile {

struct DataOptions {
  std::size_t records = 256; // at most, drawn from the whole data set
  double seconds = 5;        // at most, about
  std::size_t threads = 0;   // that read and decode; 0: all cores
};

struct MeasuredData {
  plan::DataProfile profile;
  std::size_t sampled = 0;
  std::size_t damaged = 0;        // of them
  std::vector<std::string> notes; // one line each
};

/// Reads and decodes a sample of the records, as an extraction does. Times are of a first reading
/// unless the system has the files in memory. Throws Error if no record of the sample can be used.
MeasuredData measure_data(const data::Dataset &dataset, const data::Preprocess &preprocess,
                          const DataOptions &options = {});

} // namespace tl::profile
