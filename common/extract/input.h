// What a record of a data set is to a model, before any record is read.
#pragma once

#include "data/preprocess.h"
#include "data/source.h"
#include "model/model.h"

namespace tl::extract {

/// Type and shape of one preprocessed record. Throws UsageError if the preprocessing leaves the size
/// of pictures open (neither crop nor exact resize) and the data set does not fix it, or if it does
/// not fit the data set's rows.
model::InputSpec input_spec(const data::Preprocess &preprocess, const data::Dataset &dataset);

/// What a data set is preprocessed with when nobody says: pictures as ImageNet networks expect them,
/// tokens as they are, rows of floating-point numbers as they are. Throws UsageError for rows of
/// other numbers, which could be pixels or not.
data::Preprocess default_preprocess(const data::Dataset &dataset);

} // namespace tl::extract
