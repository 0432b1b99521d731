// Rows kept in memory between epochs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tl::train {

/// A growing table of rows, one column for each value, filled from position 0 on until its budget is
/// used up; later rows are not taken.
class RowCache {
public:
  explicit RowCache(std::int64_t budget) : budget_(budget), full_(budget <= 0) {}

  /// `values`: {rows, shape...} each. Takes as many of the rows as fit, if it has refused none before.
  void append(const std::vector<at::Tensor> &values);

  /// False once a row did not fit.
  bool open() const { return !full_; }
  /// Rows [0, size()) are here.
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * row_bytes_; }

  /// Not initialised values of `rows` rows.
  std::vector<at::Tensor> like(std::int64_t rows) const;
  /// Copies row `position` to row `place` of `values`.
  void copy(std::int64_t position, std::vector<at::Tensor> &values, std::int64_t place) const;

private:
  std::int64_t budget_;
  bool full_;
  std::int64_t row_bytes_ = 0, slab_rows_ = 0, size_ = 0;
  std::vector<std::vector<at::Tensor>> columns_; // of each value: slabs {slab_rows_, shape...}
};

/// Copies row `from` of `source` to row `to` of `target`: contiguous tensors of the same row shape.
void copy_row(const at::Tensor &source, std::int64_t from, at::Tensor &target, std::int64_t to);

/// Like `value`, with `rows` rows, not initialised.
at::Tensor empty_rows(const at::Tensor &value, std::int64_t rows);

/// Bytes of one row of all the tensors together.
std::int64_t row_bytes(const std::vector<at::Tensor> &values);

} // namespace tl::train
