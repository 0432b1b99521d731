#include "extract/input.h"

#include "cli/error.h"
#include "data/prepare.h"

#include <cstring>

namespace tl::extract {

model::InputSpec input_spec(const data::Preprocess &preprocess, const data::Dataset &dataset) {
  preprocess.check();
  const bool tokens = preprocess.kind == data::InputKind::tokens;
  if (tokens != (dataset.content() == data::Content::tokens))
    throw UsageError(dataset.spec() + (tokens ? ": holds no tokens, which the preprocessing is for"
                                              : ": holds tokens; use --preprocess tokens"));
  const Shape fixed = preprocess.input_shape();
  if (!fixed.empty()) return {DType::f32, fixed};
  if (dataset.content() == data::Content::files)
    throw UsageError(preprocess.kind == data::InputKind::image
                         ? "the preprocessing leaves the size of the pictures open; add crop=N or resize=HxW"
                         : dataset.spec() +
                               ": holds picture files; the preprocessing is for rows of numbers");
  // What a row becomes depends on nothing but its shape, so a row of zeros tells it.
  data::Encoded row;
  row.content = Tensor::empty(dataset.row_dtype(), dataset.row_shape());
  std::memset(row.content.data.get(), 0, row.content.bytes());
  try {
    const Tensor input = data::Preparer(preprocess).input(row);
    return {input.dtype, input.shape};
  } catch (const data::DecodeError &error) {
    throw UsageError(dataset.spec() + ": " + error.what());
  }
}

data::Preprocess default_preprocess(const data::Dataset &dataset) {
  if (dataset.content() == data::Content::files) return data::parse_preprocess("imagenet");
  if (dataset.content() == data::Content::tokens) return data::parse_preprocess("tokens");
  if (dataset.row_dtype() == DType::f32 || dataset.row_dtype() == DType::f64)
    return data::parse_preprocess("tensor");
  throw UsageError(dataset.spec() + ": rows of " + std::string(name_of(dataset.row_dtype())) + " " +
                   to_string(dataset.row_shape()) +
                   " may be pictures or not; say how to preprocess them, for example --preprocess raw");
}

} // namespace tl::extract
