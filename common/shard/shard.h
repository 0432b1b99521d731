// A feature shard: some records' features with their labels, content hashes and ids, as one
// safetensors file that vouches for itself. The format is specified in man/tl-formats.5.
#pragma once

#include "cli/error.h"
#include "runtime/hash.h"
#include "runtime/tensor.h"
#include "shard/safetensors.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tl::shard {

/// What a shard holds for each record.
enum class Payload {
  values, // one row of a tensor per value of the cut
  rows,   // the data set's own tensor row, not preprocessed: one value named "raw", zero hash
  files,  // the encoded file, of any length
};

/// "values", "rows", "files".
std::string_view name_of(Payload payload);

struct ValueInfo {
  std::string name;         // as in the plan: "layer3.5", "input"
  Digest hash;              // the Merkle hash of the value in the model's graph
  DType dtype = DType::f32; // as the codec writes it
  Shape shape;              // of one record, without the batch dimension
};

/// What all shards of one extraction have in common.
struct ShardMeta {
  Payload payload = Payload::values;
  std::vector<ValueInfo> values;    // empty for files, exactly one for rows
  std::string codec = "fp32";       // codec::Number of the values, by name
  std::string precision = "fp32";   // in which values were computed: fp32 or bf16
  bool zstd = false;                // rows are compressed, without loss; not part of the key
  std::string preprocess;           // compact JSON of the preprocessing, for serving; "" for none
  Digest preprocess_digest;         // zero for rows and files
  Digest plan;                      // digest of the plan; not part of the key
  std::vector<std::string> classes; // names in bytes; empty when unlabelled; not part of the key

  /// Features of equal key and equal record are equal: payload, codec, precision, preprocessing digest and
  /// each value's name, hash, dtype and shape. Batch size, threads, plan, classes do not matter.
  Digest key() const;
  /// Throws Error if the fields contradict each other (no values, a value named twice, ...).
  void check() const;

  /// True if the value comes with scales: 8-bit integers that the codec made.
  bool scaled(const ValueInfo &value) const { return codec == "int8" && value.dtype == DType::i8; }
  /// Rows have the bytes of an encoded file or a frame, of any length, in place of tensors.
  bool ragged() const { return payload == Payload::files || zstd; }
  /// Bytes of a row's values and scales, uncompressed; 0 for files.
  std::size_t row_bytes() const;
};

/// Why the keys of two metas differ, for a message: "value 'layer3' comes from other weights or
/// another graph". "" when they are equal.
std::string difference(const ShardMeta &have, const ShardMeta &want);

/// Rows of features. All vectors and first dimensions have size() entries.
struct Shard {
  ShardMeta meta;
  std::int64_t number = 0;    // of this shard in its folder or stream
  std::vector<Tensor> values; // meta.values in order: {rows, shape...}; if ragged, none
  std::vector<Tensor> scales; // of the value in that place, if it is scaled: f32 {rows, scale_shape...}
  Tensor files;               // ragged: u8 {total}; files, or zstd frames (coding.h)
  std::vector<std::int64_t> file_offset; // ragged: row i is [offset[i], offset[i + 1])
  std::vector<std::int64_t> labels;      // index into meta.classes; -1: none
  std::vector<Digest> records;           // hash of the record's content
  std::vector<std::int64_t> rows;        // index in the data set's listing
  std::vector<std::string> ids;          // any bytes
  std::int64_t skipped = 0; // when the shard is a whole extraction: the records that were left out

  std::int64_t size() const { return static_cast<std::int64_t>(records.size()); }
  /// The encoded file, or the frame, of row `i`.
  std::string_view file(std::int64_t i) const;
  /// Bytes of the features, without labels and ids.
  std::size_t feature_bytes() const;
};

/// Throws Error naming the member of `rows` that fits not `meta` or the number of rows.
void check_rows(const ShardMeta &meta, const Shard &rows);

/// Rows [begin, end) of `shard`; the tensors share its memory.
Shard slice(const Shard &shard, std::int64_t begin, std::int64_t end);
/// The same for rows whose own meta says nothing: `meta` describes them, and the result has none.
Shard slice(const ShardMeta &meta, const Shard &rows, std::int64_t begin, std::int64_t end);

/// A place of one row.
struct RowRef {
  const Shard *shard = nullptr;
  std::int64_t row = 0;
};
/// A new shard with copies of these rows in this order. `meta` gives names and shapes; unless it says
/// zstd, rows of compressed shards are decompressed. Throws FormatError for a damaged frame.
Shard gather(const ShardMeta &meta, const std::vector<RowRef> &rows);

/// A file that is whole, but not ours to read: so never to be removed as damaged.
class ForeignFile : public FormatError {
public:
  using FormatError::FormatError;
};
/// Written by a newer version of the tools.
class NewerVersion : public ForeignFile {
public:
  using ForeignFile::ForeignFile;
};

/// Writes the shard as a safetensors file, with its checksum, and returns its bytes. Throws what the
/// sink throws.
std::uint64_t write_shard(const Shard &shard, const ByteSink &sink);

/// Checks the version, the checksum over every byte, and every field. Values share the block; those of
/// a compressed shard are decompressed. Throws ForeignFile, NewerVersion, FormatError naming `origin`
/// and the place.
Shard parse_shard(const Block &block, const std::string &origin);
Shard read_shard(const std::string &path);
/// The same, but a compressed shard stays compressed.
Shard parse_stored_shard(const Block &block, const std::string &origin, Verify verify = Verify::yes);
Shard read_stored_shard(const std::string &path);

/// The metadata strings of a shard, index or stream header that come from the meta, and back.
std::map<std::string, std::string> to_metadata(const ShardMeta &meta);
ShardMeta meta_from_metadata(const std::map<std::string, std::string> &metadata, const std::string &origin);

/// Name of a value's tensor in the file: its own, or "value.NAME" when a shard's own tensor has it.
std::string tensor_name(const std::string &value);

} // namespace tl::shard
