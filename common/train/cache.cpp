#include "train/cache.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

namespace tl::train {

namespace {
constexpr std::int64_t kSlabBytes = std::int64_t{16} << 20;

std::int64_t bytes_of_row(const at::Tensor &value) {
  std::int64_t elements = 1;
  for (std::int64_t d = 1; d < value.dim(); ++d) elements *= value.size(d);
  return elements * static_cast<std::int64_t>(value.element_size());
}
} // namespace

at::Tensor empty_rows(const at::Tensor &value, std::int64_t rows) {
  std::vector<std::int64_t> shape = value.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, at::TensorOptions().dtype(value.dtype()));
}

std::int64_t row_bytes(const std::vector<at::Tensor> &values) {
  std::int64_t bytes = 0;
  for (const at::Tensor &value : values) bytes += bytes_of_row(value);
  return bytes;
}

void copy_row(const at::Tensor &source, std::int64_t from, at::Tensor &target, std::int64_t to) {
  const auto bytes = static_cast<std::size_t>(bytes_of_row(source));
  std::memcpy(static_cast<std::byte *>(target.data_ptr()) + static_cast<std::size_t>(to) * bytes,
              static_cast<const std::byte *>(source.data_ptr()) + static_cast<std::size_t>(from) * bytes,
              bytes);
}

void RowCache::append(const std::vector<at::Tensor> &values) {
  if (full_) return;
  if (columns_.empty()) {
    row_bytes_ = row_bytes(values);
    slab_rows_ = std::clamp<std::int64_t>(kSlabBytes / std::max<std::int64_t>(row_bytes_, 1), 1, 4096);
    columns_.resize(values.size());
  }
  const std::int64_t rows = values.at(0).size(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    if ((size_ + 1) * row_bytes_ > budget_) {
      full_ = true;
      return;
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::vector<at::Tensor> &slabs = columns_[c];
      if (static_cast<std::int64_t>(slabs.size()) * slab_rows_ <= size_)
        slabs.push_back(empty_rows(values[c], slab_rows_));
      copy_row(values[c], row, slabs.back(), size_ % slab_rows_);
    }
    ++size_;
  }
}

std::vector<at::Tensor> RowCache::like(std::int64_t rows) const {
  std::vector<at::Tensor> values;
  for (const std::vector<at::Tensor> &slabs : columns_) values.push_back(empty_rows(slabs.at(0), rows));
  return values;
}

void RowCache::copy(std::int64_t position, std::vector<at::Tensor> &values, std::int64_t place) const {
  for (std::size_t c = 0; c < columns_.size(); ++c)
    copy_row(columns_[c][static_cast<std::size_t>(position / slab_rows_)], position % slab_rows_, values[c],
             place);
}

} // namespace tl::train
