// Small shards made by code, whose every value follows from the record's number.
#pragma once

#include "shard/shard.h"

#include <cstring>
#include <string>

namespace tl::test {

inline shard::ShardMeta values_meta() {
  shard::ShardMeta meta;
  meta.values = {{"layer3.5", hash_text("layer3.5"), DType::f32, {2, 3}},
                 {"gate", hash_text("gate"), DType::u8, {5}}};
  meta.preprocess = R"({"kind":"image"})";
  meta.preprocess_digest = hash_text("preprocess");
  meta.plan = hash_text("plan");
  meta.classes = {"cat", "dog", "\xff\\bytes"};
  return meta;
}

inline shard::ShardMeta files_meta() {
  shard::ShardMeta meta;
  meta.payload = shard::Payload::files;
  meta.classes = {"cat", "dog", "elk"};
  return meta;
}

inline Digest record_hash(std::int64_t number) { return hash_text("record " + std::to_string(number)); }
inline std::string record_id(std::int64_t number) {
  return "dog/" + std::to_string(number) + (number % 3 == 1 ? "\n\xfe\\" : "") + ".png";
}
/// Of any length, 0 and multiples of 64 among them.
inline std::string record_file(std::int64_t number) {
  return std::string(static_cast<std::size_t>(number % 5 * 32), static_cast<char>('a' + number % 26));
}

/// Records `first` to `first + count`, with every value of the meta.
inline shard::Shard make_rows(const shard::ShardMeta &meta, std::int64_t first, std::int64_t count) {
  shard::Shard rows;
  rows.meta = meta;
  if (meta.payload == shard::Payload::files) rows.file_offset.push_back(0);
  std::string files;
  for (std::int64_t number = first; number < first + count; ++number) {
    rows.labels.push_back(number % 4 - 1);
    rows.records.push_back(record_hash(number));
    rows.rows.push_back(number);
    rows.ids.push_back(record_id(number));
    if (meta.payload != shard::Payload::files) continue;
    files += record_file(number);
    rows.file_offset.push_back(static_cast<std::int64_t>(files.size()));
  }
  for (const shard::ValueInfo &value : meta.values) {
    Shape shape{count};
    shape.insert(shape.end(), value.shape.begin(), value.shape.end());
    Tensor tensor = Tensor::empty(value.dtype, shape);
    const std::size_t row = count ? tensor.bytes() / static_cast<std::size_t>(count) : 0;
    for (std::size_t i = 0; i < tensor.bytes(); ++i)
      tensor.data.get()[i] = static_cast<std::byte>((static_cast<std::size_t>(first) + i / row) * 7 +
                                                    i % row + value.name.size());
    rows.values.push_back(tensor);
  }
  if (meta.payload == shard::Payload::files) {
    rows.files = Tensor::empty(DType::u8, {static_cast<std::int64_t>(files.size())});
    if (!files.empty()) std::memcpy(rows.files.data.get(), files.data(), files.size());
  }
  return rows;
}

inline bool same_bytes(const Tensor &a, const Tensor &b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::memcmp(a.data.get(), b.data.get(), a.bytes()) == 0;
}

inline bool same_rows(const shard::Shard &a, const shard::Shard &b) {
  bool same = a.labels == b.labels && a.records == b.records && a.rows == b.rows && a.ids == b.ids &&
              a.file_offset == b.file_offset && a.values.size() == b.values.size() &&
              a.scales.size() == b.scales.size() && shard::to_metadata(a.meta) == shard::to_metadata(b.meta);
  for (std::size_t i = 0; same && i < a.values.size(); ++i) same = same_bytes(a.values[i], b.values[i]);
  for (std::size_t i = 0; same && i < a.scales.size(); ++i)
    same =
        !a.scales[i].data == !b.scales[i].data && (!a.scales[i].data || same_bytes(a.scales[i], b.scales[i]));
  return same && (a.file_offset.empty() || same_bytes(a.files, b.files));
}

inline shard::Block block_of(const std::string &bytes) {
  const Tensor copy = Tensor::empty(DType::u8, {static_cast<std::int64_t>(bytes.size())});
  if (!bytes.empty()) std::memcpy(copy.data.get(), bytes.data(), bytes.size());
  return {copy.data, bytes.size()};
}

inline std::string shard_bytes(const shard::Shard &shard) {
  std::string bytes;
  shard::write_shard(shard, shard::string_sink(bytes));
  return bytes;
}

/// The message of what `action` throws as E; "" when it throws nothing.
template <class E = Error, class Action> std::string message_of(const Action &action) {
  try {
    action();
  } catch (const E &error) {
    return error.what();
  }
  return "";
}

} // namespace tl::test
