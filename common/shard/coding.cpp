#include "shard/coding.h"

#include "cli/log.h"
#include "codec/numbers.h"

#include <cstring>

namespace tl::shard {

namespace {

codec::Number number_of(const ShardMeta &meta) { return codec::number_from_name(meta.codec); }

Tensor bytes_of(const std::string &text) {
  Tensor tensor = Tensor::empty(DType::u8, {static_cast<std::int64_t>(text.size())});
  if (!text.empty()) std::memcpy(tensor.data.get(), text.data(), text.size());
  return tensor;
}

void encode_value(codec::Number number, const Shard &computed, std::size_t i, Shard &coded) {
  const Tensor &value = computed.values[i];
  Tensor scales;
  if (value.dtype != DType::f32 || number == codec::Number::fp32 || number == codec::Number::u8) {
    coded.values.push_back(value);
  } else if (number == codec::Number::bf16) {
    coded.values.push_back(codec::to_bf16(value));
  } else {
    try {
      codec::Scaled scaled = codec::to_int8(value);
      coded.values.push_back(std::move(scaled.values));
      scales = std::move(scaled.scales);
    } catch (const codec::NotFinite &error) {
      throw Error(cli::printable(computed.ids.at(static_cast<std::size_t>(error.row))) + ": its feature '" +
                  computed.meta.values[i].name + "' " + error.what());
    }
  }
  if (number == codec::Number::int8) coded.scales.push_back(std::move(scales));
}

/// Compresses rows, each to a frame.
Shard pack(const ShardMeta &meta, Shard rows) {
  codec::FrameCoder coder = frame_coder(meta);
  std::vector<const std::byte *> parts;
  std::vector<std::size_t> steps; // from row to row
  const auto add = [&](const Tensor &tensor) {
    parts.push_back(tensor.data.get());
    steps.push_back(rows.size() ? tensor.bytes() / static_cast<std::size_t>(rows.size()) : 0);
  };
  for (std::size_t i = 0; i < meta.values.size(); ++i) {
    add(rows.values[i]);
    if (meta.scaled(meta.values[i])) add(rows.scales[i]);
  }
  std::string frames;
  rows.file_offset.assign(1, 0);
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    coder.compress(parts, frames);
    rows.file_offset.push_back(static_cast<std::int64_t>(frames.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += steps[i];
  }
  rows.files = bytes_of(frames);
  rows.values.clear();
  rows.scales.clear();
  return rows;
}

} // namespace

ShardMeta coded(ShardMeta computed, codec::Codec codec) {
  const bool pixels = computed.codec == name_of(codec::Number::u8);
  if (pixels != (codec.number == codec::Number::u8))
    throw Error("the codec " + name_of(codec) + (pixels ? " is not for pixels" : " is for pixels only"));
  if (computed.payload != Payload::values && codec != codec::Codec::fp32)
    throw Error("records that are shipped as they are have no codec");
  computed.codec = name_of(codec.number);
  computed.zstd = codec.zstd;
  for (ValueInfo &value : computed.values) {
    if (value.dtype != DType::f32) continue;
    if (codec.number == codec::Number::bf16) value.dtype = DType::bf16;
    if (codec.number == codec::Number::int8) value.dtype = DType::i8;
  }
  return computed;
}

Shard encode(const ShardMeta &meta, const Shard &computed) {
  if (meta.payload == Payload::files) return computed;
  Shard rows = computed;
  rows.values.clear();
  for (std::size_t i = 0; i < computed.values.size(); ++i) encode_value(number_of(meta), computed, i, rows);
  if (meta.zstd) rows = pack(meta, std::move(rows));
  rows.meta = meta;
  return rows;
}

Shard unpack(const Shard &rows) {
  if (!rows.meta.zstd) return rows;
  ShardMeta meta = rows.meta;
  meta.zstd = false;
  std::vector<RowRef> all;
  for (std::int64_t row = 0; row < rows.size(); ++row) all.push_back({&rows, row});
  Shard result = gather(meta, all);
  result.number = rows.number;
  result.skipped = rows.skipped;
  return result;
}

DType decoded_dtype(const ShardMeta &meta, const ValueInfo &value) {
  const bool bf16 = number_of(meta) == codec::Number::bf16 && value.dtype == DType::bf16;
  return bf16 || meta.scaled(value) ? DType::f32 : value.dtype;
}

std::vector<Tensor> decode(const ShardMeta &meta, const Shard &rows) {
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    const Tensor &value = rows.values[i];
    if (meta.scaled(meta.values[i]))
      values.push_back(codec::from_int8(value, rows.scales[i]));
    else if (decoded_dtype(meta, meta.values[i]) != value.dtype)
      values.push_back(codec::from_bf16(value));
    else
      values.push_back(value);
  }
  return values;
}

codec::FrameCoder frame_coder(const ShardMeta &meta) {
  std::vector<codec::Part> parts;
  for (const ValueInfo &value : meta.values) {
    const std::size_t size = size_of(value.dtype);
    parts.push_back({static_cast<std::size_t>(element_count(value.shape)) * size, size});
    if (!meta.scaled(value)) continue;
    const auto scales = static_cast<std::size_t>(element_count(codec::scale_shape(value.shape)));
    parts.push_back({scales * sizeof(float), sizeof(float)});
  }
  return codec::FrameCoder(std::move(parts));
}

} // namespace tl::shard
