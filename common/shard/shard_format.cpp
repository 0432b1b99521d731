// Shard <-> safetensors file.
#include "cli/log.h"
#include "codec/numbers.h"
#include "shard/coding.h"
#include "shard/sealed.h"
#include "shard/shard.h"
#include "json/bytes.h"
#include "json/document.h"

#include <algorithm>

namespace tl::shard {

namespace {

constexpr const char *kFormat = "tl-shard";
constexpr const char *kValuePrefix = "value.";
constexpr const char *kScalePrefix = "scale.";
constexpr const char *kZstd = "zstd"; // the frames, and how the metadata name the compression
constexpr const char *kOwnTensors[] = {"label", "record",      "row",  "id",          "id_offset",
                                       "file",  "file_offset", "zstd", "zstd_offset", "__metadata__"};

Payload payload_of(const std::string &text, const std::string &origin) {
  for (const Payload payload : {Payload::values, Payload::rows, Payload::files})
    if (text == name_of(payload)) return payload;
  throw FormatError(origin + ": metadata 'payload': '" + cli::printable(text) +
                    "' is not values, rows or files");
}

ValueInfo value_of(const json::Value &item) {
  ValueInfo value;
  value.name = item.at("name").get<std::string>();
  value.hash = Digest::from_hex(item.at("hash").get<std::string>());
  value.dtype = dtype_from_name(item.at("dtype").get<std::string>());
  value.shape = item.at("shape").get<Shape>();
  return value;
}

std::string scale_name(const ValueInfo &value) { return kScalePrefix + value.name; }

void take_values(const SafeTensors &file, std::int64_t rows, const std::string &origin, Shard &shard) {
  const auto tensor = [&](const std::string &name, DType dtype, const Shape &record) {
    Shape shape{rows};
    shape.insert(shape.end(), record.begin(), record.end());
    return required(file, name, dtype, shape, origin);
  };
  for (const ValueInfo &value : shard.meta.values) {
    shard.values.push_back(tensor(tensor_name(value.name), value.dtype, value.shape));
    if (shard.meta.codec != name_of(codec::Number::int8)) continue;
    shard.scales.push_back(shard.meta.scaled(value)
                               ? tensor(scale_name(value), DType::f32, codec::scale_shape(value.shape))
                               : Tensor());
  }
}

/// Everything a shard's tensors and metadata say, once its checksum is known to be right.
Shard shard_of(const SafeTensors &file, const std::string &origin) {
  Shard shard;
  shard.meta = meta_from_metadata(file.metadata, origin);
  shard.number = required_count(file.metadata, "shard", origin);
  shard.skipped = required_count(file.metadata, "skipped", origin);
  const std::int64_t rows = required_count(file.metadata, "rows", origin);
  // A file of this many rows has as many bytes; more would overflow what is built on the number.
  if (rows > std::int64_t{1} << 40)
    throw FormatError(origin + ": " + std::to_string(rows) + " rows are too many");
  if (!shard.meta.ragged()) take_values(file, rows, origin, shard);
  shard.labels = integers(file, "label", rows, origin);
  shard.rows = integers(file, "row", rows, origin);
  shard.records = digests(file, "record", rows, origin);
  shard.ids = strings(file, "id", rows, origin);
  if (shard.meta.ragged()) {
    const char *name = shard.meta.zstd ? kZstd : "file";
    shard.file_offset = offsets(file, name, rows, origin);
    shard.files = *file.find(name);
  }
  return shard;
}

} // namespace

std::string tensor_name(const std::string &value) {
  const bool taken =
      std::find(std::begin(kOwnTensors), std::end(kOwnTensors), value) != std::end(kOwnTensors);
  const bool prefixed = value.rfind(kValuePrefix, 0) == 0 || value.rfind(kScalePrefix, 0) == 0;
  return taken || prefixed ? kValuePrefix + value : value;
}

std::map<std::string, std::string> to_metadata(const ShardMeta &meta) {
  json::Value values = json::Value::array();
  for (const ValueInfo &value : meta.values) {
    values.push_back({{"name", value.name},
                      {"tensor", tensor_name(value.name)},
                      {"hash", value.hash.hex()},
                      {"dtype", std::string(name_of(value.dtype))},
                      {"shape", value.shape}});
    if (meta.scaled(value)) values.back()["scale"] = scale_name(value);
  }
  json::Value classes = json::Value::array();
  for (const std::string &name : meta.classes) classes.push_back(json::escape_bytes(name));
  std::map<std::string, std::string> metadata = {{"payload", std::string(name_of(meta.payload))},
                                                 {"values", json::compact(values)},
                                                 {"codec", meta.codec},
                                                 {"preprocess", meta.preprocess},
                                                 {"preprocess_digest", meta.preprocess_digest.hex()},
                                                 {"plan", meta.plan.hex()},
                                                 {"classes", json::compact(classes)},
                                                 {"key", meta.key().hex()}};
  if (meta.zstd) metadata["compression"] = kZstd;
  if (meta.precision != "fp32") metadata["precision"] = meta.precision;
  return metadata;
}

ShardMeta meta_from_metadata(const std::map<std::string, std::string> &metadata, const std::string &origin) {
  ShardMeta meta;
  meta.payload = payload_of(required(metadata, "payload", origin), origin);
  meta.codec = required(metadata, "codec", origin);
  if (const auto compression = metadata.find("compression"); compression != metadata.end()) {
    if (compression->second != kZstd)
      throw NewerVersion(origin + ": compressed by '" + cli::printable(compression->second) +
                         "', which this version does not know; upgrade");
    meta.zstd = true;
  }
  if (const auto precision = metadata.find("precision"); precision != metadata.end())
    meta.precision = precision->second;
  meta.preprocess = required(metadata, "preprocess", origin);
  const json::Value values =
      json::parse(required(metadata, "values", origin), origin + ": metadata 'values'");
  const json::Value classes =
      json::parse(required(metadata, "classes", origin), origin + ": metadata 'classes'");
  try {
    meta.preprocess_digest = Digest::from_hex(required(metadata, "preprocess_digest", origin));
    meta.plan = Digest::from_hex(required(metadata, "plan", origin));
    if (!values.is_array() || !classes.is_array()) throw FormatError("'values' and 'classes' must be lists");
    for (const json::Value &item : values) meta.values.push_back(value_of(item));
    for (const json::Value &name : classes)
      meta.classes.push_back(json::unescape_bytes(name.get<std::string>()));
    meta.check();
  } catch (const json::Value::exception &error) { // a wrong type, or a field that is missing
    throw FormatError(origin + ": metadata: " + error.what());
  } catch (const Error &error) {
    throw FormatError(origin + ": metadata: " + error.what());
  }
  if (required(metadata, "key", origin) != meta.key().hex())
    throw FormatError(origin + ": metadata 'key' does not belong to the values");
  return meta;
}

std::uint64_t write_shard(const Shard &shard, const ByteSink &sink) {
  shard.meta.check();
  check_rows(shard.meta, shard);
  SafeTensors file;
  file.metadata = to_metadata(shard.meta);
  file.metadata["shard"] = std::to_string(shard.number);
  file.metadata["skipped"] = std::to_string(shard.skipped);
  file.metadata["rows"] = std::to_string(shard.size());
  for (std::size_t i = 0; i < shard.values.size(); ++i) {
    const ValueInfo &value = shard.meta.values[i];
    file.tensors.push_back({tensor_name(value.name), shard.values[i]});
    if (shard.meta.scaled(value)) file.tensors.push_back({scale_name(value), shard.scales[i]});
  }
  file.tensors.push_back({"label", to_tensor(shard.labels)});
  file.tensors.push_back({"row", to_tensor(shard.rows)});
  file.tensors.push_back({"record", to_tensor(shard.records)});
  add_strings(file, "id", shard.ids);
  if (shard.meta.ragged()) {
    const std::string name = shard.meta.zstd ? kZstd : "file";
    file.tensors.push_back({name, shard.files});
    file.tensors.push_back({name + "_offset", to_tensor(shard.file_offset)});
  }
  return write_sealed(std::move(file), kFormat, sink);
}

Shard parse_stored_shard(const Block &block, const std::string &origin, Verify verify) {
  Shard shard = shard_of(parse_sealed(block, kFormat, origin, verify), origin);
  try {
    check_rows(shard.meta, shard);
  } catch (const Error &error) {
    throw FormatError(origin + ": " + error.what());
  }
  return shard;
}

Shard read_stored_shard(const std::string &path) { return parse_stored_shard(map_file(path), path); }

Shard parse_shard(const Block &block, const std::string &origin) {
  const Shard stored = parse_stored_shard(block, origin);
  try {
    return unpack(stored);
  } catch (const FormatError &error) {
    throw FormatError(origin + ": " + error.what());
  }
}

Shard read_shard(const std::string &path) { return parse_shard(map_file(path), path); }

} // namespace tl::shard
