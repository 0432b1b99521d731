// A safetensors file that vouches for itself: its metadata name the format, the version and a
// checksum over every byte of the file. Shards and indexes are sealed files.
#pragma once

#include "runtime/hash.h"
#include "shard/safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::shard {

/// Adds "format", "version" and "checksum" to the metadata and writes the file. Returns its bytes.
std::uint64_t write_sealed(SafeTensors file, const std::string &format, const ByteSink &sink);

/// Parses, then checks the format, the version (NewerVersion) and, unless told not to, the checksum.
SafeTensors parse_sealed(const Block &block, const std::string &format, const std::string &origin,
                         Verify verify = Verify::yes);

using Metadata = std::map<std::string, std::string>;

/// The metadata string `key`. Throws FormatError when it is missing.
const std::string &required(const Metadata &metadata, const std::string &key, const std::string &origin);
/// The same as a whole number >= 0.
std::int64_t required_count(const Metadata &metadata, const std::string &key, const std::string &origin);
/// Throws FormatError unless metadata say `format` and a version that is known.
void check_format(const Metadata &metadata, const std::string &format, const std::string &origin);

/// The tensor `name`. Throws FormatError unless it is there with that type and shape.
const Tensor &required(const SafeTensors &file, const std::string &name, DType dtype, const Shape &shape,
                       const std::string &origin);

/// Columns of a table <-> tensors. Digests are u8 {n, 16}: big-endian high, then low. Strings are a
/// u8 blob `name` and i64 {n + 1} `name`_offset: string i is [offset[i], offset[i + 1]).
Tensor to_tensor(const std::vector<std::int64_t> &column);
Tensor to_tensor(const std::vector<Digest> &column);
void add_strings(SafeTensors &file, const std::string &name, const std::vector<std::string> &column);
std::vector<std::int64_t> integers(const SafeTensors &file, const std::string &name, std::int64_t rows,
                                   const std::string &origin);
std::vector<Digest> digests(const SafeTensors &file, const std::string &name, std::int64_t rows,
                            const std::string &origin);
std::vector<std::string> strings(const SafeTensors &file, const std::string &name, std::int64_t rows,
                                 const std::string &origin);
/// The offsets of a blob, checked: they start at 0, never fall, and end at the blob's size.
std::vector<std::int64_t> offsets(const SafeTensors &file, const std::string &name, std::int64_t rows,
                                  const std::string &origin);

/// 16 bytes, big-endian high, then low: so that their hexadecimal form is Digest::hex().
void store_digest(const Digest &digest, std::byte *bytes);
Digest load_digest(const std::byte *bytes);

} // namespace tl::shard
