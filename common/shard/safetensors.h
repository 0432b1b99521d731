// The safetensors file format: an 8-byte little-endian header length, a JSON header, the tensors'
// bytes back to back. Specification: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include "runtime/tensor.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tl::shard {

/// Whether the checksum over a file's bytes is computed. Verify::no is for a file that is known to be the
/// one that was verified before; its header and its fields are checked all the same.
enum class Verify { yes, no };

/// Bytes in memory; `data` keeps their owner (a mapped file, a heap block) alive.
struct Block {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;
};

/// Maps a regular file; the mapping is private, so writing to it never reaches the file. Throws SystemError,
/// Error for what is no regular file.
Block map_file(const std::string &path);
/// Lets the system read all of a mapped file, without waiting for it.
void read_ahead(const Block &mapped);

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct SafeTensors {
  std::vector<NamedTensor> tensors; // in the order of their bytes
  std::map<std::string, std::string> metadata;

  /// nullptr when there is none of that name.
  const Tensor *find(const std::string &name) const;
};

/// Largest header that is believed, and the most tensors it may name.
struct HeaderLimits {
  std::size_t bytes = std::size_t{64} << 20;
  std::size_t tensors = std::size_t{1} << 20;
};

/// Checks the header before anything in it is used: its length, JSON, depth, double keys, known
/// types, and that the tensors cover the data exactly, without hole or overlap, each with the bytes
/// that its shape asks for. The tensors share the block; one that is not aligned for its type is
/// copied. `origin` is the name for messages. Throws FormatError.
SafeTensors parse_safetensors(const Block &block, const std::string &origin, const HeaderLimits &limits = {});
SafeTensors read_safetensors(const std::string &path, const HeaderLimits &limits = {});

/// Where bytes go: a descriptor, an AtomicFile, a string.
using ByteSink = std::function<void(const void *data, std::size_t size)>;
ByteSink descriptor_sink(int fd, std::string name);
ByteSink string_sink(std::string &text);

/// The length and JSON header that precede the data, padded so that the data starts at a multiple
/// of 64; `order` receives the tensors in file order (largest element first, so that all are
/// aligned). Throws Error for a name or metadata that is not UTF-8 and for a name used twice.
std::string safetensors_header(const SafeTensors &file, std::vector<const Tensor *> &order);
void write_safetensors(const SafeTensors &file, const ByteSink &sink);

} // namespace tl::shard
