// What codecs do to the values that can cross a link: size, time and error.
#pragma once

#include "data/source.h"
#include "model/model.h"
#include "plan/profile.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::profile {

struct CodecOptions {
  std::int64_t records = 8; // at most; fewer of large values
  double seconds = 5;       // at most, about; values that are left then are not measured
};

struct MeasuredCodecs {
  plan::CodecProfile profile;
  std::vector<std::string> notes; // one line each
};

/// Writes and reads back each value that is part of a cut, alone, in each codec, just as tl-extract and
/// tl-train do, on one thread. Pixels are tried as u8, values that are not f32 only as they are. The records
/// are drawn from the data set if there is one, else they are random numbers, whose features shrink
/// and round otherwise than those of real records. Small values come first. Throws Error if no
/// record of the data set can be used, Interrupted.
MeasuredCodecs measure_codecs(const model::Model &model, const data::Preprocess &preprocess,
                              const std::optional<data::Dataset> &dataset, const CodecOptions &options = {});

} // namespace tl::profile
