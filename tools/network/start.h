// What the programs that run networks begin with.
#pragma once

#include "cli/log.h"
#include "data/source.h"
#include "runtime/host.h"

#include <ATen/Parallel.h>

#include <string>

namespace tl::tools {

/// So many work on a network; 0: one a core.
inline void use_threads(std::size_t threads) {
  at::set_num_threads(threads > 0 ? static_cast<int>(threads) : usable_cores());
}

/// Opens it, and tells what there is to say of it.
inline data::Dataset open_dataset(const std::string &spec, const data::SourceOptions &options) {
  data::Dataset dataset = data::Dataset::open(spec, options);
  for (const std::string &note : dataset.notes()) cli::note(spec + ": " + note);
  return dataset;
}

} // namespace tl::tools
