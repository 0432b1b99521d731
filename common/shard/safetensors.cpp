#include "shard/safetensors.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/utf8.h"
#include "json/document.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace tl::shard {

namespace {

constexpr std::size_t kMaxDimensions = 32;
constexpr const char *kMetadataKey = "__metadata__";

struct TypeName {
  const char *name;
  DType dtype;
};
constexpr TypeName kTypeNames[] = {
    {"F64", DType::f64}, {"F32", DType::f32},      {"F16", DType::f16}, {"BF16", DType::bf16},
    {"I64", DType::i64}, {"I32", DType::i32},      {"I16", DType::i16}, {"I8", DType::i8},
    {"U8", DType::u8},   {"BOOL", DType::boolean},
};

const char *type_name(DType dtype) {
  for (const TypeName &type : kTypeNames)
    if (type.dtype == dtype) return type.name;
  throw Error("no safetensors type for " + std::string(name_of(dtype)));
}

std::uint64_t little_endian_64(const std::byte *bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

/// What the header says about one tensor, already checked in itself.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;
};

/// Turns the header's JSON into entries. `place` names the file for messages.
class HeaderReader {
public:
  HeaderReader(std::string origin, std::uint64_t data_size)
      : origin_(std::move(origin)), data_size_(data_size) {}

  Entry entry(const std::string &name, const nlohmann::json &value) const {
    const std::string place = origin_ + ": tensor '" + cli::printable(name) + "': ";
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      throw FormatError(place + "its header entry must have dtype, shape and data_offsets, and nothing else");
    Entry entry{name, dtype(value["dtype"], place), shape(value["shape"], place), 0, 0};
    const nlohmann::json &offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      throw FormatError(place + "data_offsets must be two whole numbers");
    entry.begin = offsets[0].get<std::uint64_t>();
    entry.end = offsets[1].get<std::uint64_t>();
    if (entry.begin > entry.end || entry.end > data_size_)
      throw FormatError(place + "its bytes " + std::to_string(entry.begin) + " to " +
                        std::to_string(entry.end) + " lie outside of the " + std::to_string(data_size_) +
                        " bytes of data; is the file cut off?");
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(element_count(entry.shape)), size_of(entry.dtype),
                               &bytes) ||
        bytes != entry.end - entry.begin)
      throw FormatError(place + to_string(entry.shape) + " of " + std::string(name_of(entry.dtype)) +
                        " does not fill its " + std::to_string(entry.end - entry.begin) + " bytes");
    return entry;
  }

  std::map<std::string, std::string> metadata(const nlohmann::json &value) const {
    if (!value.is_object()) throw FormatError(origin_ + ": __metadata__ is not an object");
    std::map<std::string, std::string> metadata;
    for (const auto &[key, text] : value.items()) {
      if (!text.is_string())
        throw FormatError(origin_ + ": __metadata__ '" + cli::printable(key) + "' is not a string");
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

private:
  static DType dtype(const nlohmann::json &value, const std::string &place) {
    if (!value.is_string()) throw FormatError(place + "dtype is not a string");
    const std::string name = value.get<std::string>();
    for (const TypeName &type : kTypeNames)
      if (name == type.name) return type.dtype;
    throw FormatError(place + "type '" + cli::printable(name) +
                      "' is not supported; use F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL");
  }

  static Shape shape(const nlohmann::json &value, const std::string &place) {
    if (!value.is_array() || value.size() > kMaxDimensions)
      throw FormatError(place + "shape must be a list of at most 32 sizes");
    Shape shape;
    for (const nlohmann::json &size : value) {
      if (!size.is_number_unsigned() || size.get<std::uint64_t>() > std::uint64_t{1} << 62)
        throw FormatError(place + "shape has the impossible size " + size.dump());
      shape.push_back(size.get<std::int64_t>());
    }
    try {
      element_count(shape);
    } catch (const FormatError &error) {
      throw FormatError(place + error.what());
    }
    return shape;
  }

  std::string origin_;
  std::uint64_t data_size_;
};

/// The header's text, or why there is none.
std::string header_text(const Block &block, const std::string &origin, const HeaderLimits &limits) {
  if (block.size < 8)
    throw FormatError(origin + ": not a safetensors file: only " + std::to_string(block.size) + " bytes");
  const std::uint64_t length = little_endian_64(block.data.get());
  const bool brace = block.size > 8 && block.data.get()[8] == std::byte{'{'};
  if (!brace) throw FormatError(origin + ": not a safetensors file (no JSON header after the first 8 bytes)");
  if (length > limits.bytes)
    throw FormatError(origin + ": its header claims " + std::to_string(length) +
                      " bytes, over the limit of " + std::to_string(limits.bytes));
  if (length > block.size - 8)
    throw FormatError(origin + ": cut off: its header has " + std::to_string(length) + " bytes, the file " +
                      std::to_string(block.size));
  return {reinterpret_cast<const char *>(block.data.get()) + 8, static_cast<std::size_t>(length)};
}

/// The tensors must tile the data: a hole could hide data, an overlap would alias.
void check_tiling(std::vector<Entry> &entries, std::uint64_t data_size, const std::string &origin) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t reached = 0;
  for (const Entry &entry : entries) {
    if (entry.begin != reached)
      throw FormatError(origin + ": tensor '" + cli::printable(entry.name) + "' begins at byte " +
                        std::to_string(entry.begin) + ", but the one before it ends at " +
                        std::to_string(reached));
    reached = entry.end;
  }
  if (reached != data_size)
    throw FormatError(origin + ": " + std::to_string(data_size - reached) +
                      " bytes after the last tensor belong to none");
}

Tensor view(const Block &block, std::size_t offset, const Entry &entry) {
  Tensor tensor;
  tensor.dtype = entry.dtype;
  tensor.shape = entry.shape;
  std::byte *start = block.data.get() + offset;
  if (reinterpret_cast<std::uintptr_t>(start) % size_of(entry.dtype) != 0) {
    tensor = Tensor::empty(entry.dtype, entry.shape);
    std::memcpy(tensor.data.get(), start, tensor.bytes());
  } else {
    tensor.data = std::shared_ptr<std::byte>(block.data, start);
  }
  return tensor;
}

} // namespace

const Tensor *SafeTensors::find(const std::string &name) const {
  for (const NamedTensor &named : tensors)
    if (named.name == name) return &named.tensor;
  return nullptr;
}

SafeTensors parse_safetensors(const Block &block, const std::string &origin, const HeaderLimits &limits) {
  const std::string text = header_text(block, origin, limits);
  const nlohmann::json header = json::parse_sorted(text, origin + ": header");
  if (header.size() > limits.tensors)
    throw FormatError(origin + ": its header names " + std::to_string(header.size()) +
                      " tensors, over the limit of " + std::to_string(limits.tensors));
  const std::size_t data_start = 8 + text.size();
  const std::size_t data_size = block.size - data_start;
  const HeaderReader reader(origin, data_size);
  SafeTensors file;
  std::vector<Entry> entries;
  for (const auto &[name, value] : header.items()) {
    if (name == kMetadataKey)
      file.metadata = reader.metadata(value);
    else
      entries.push_back(reader.entry(name, value));
  }
  check_tiling(entries, data_size, origin);
  for (const Entry &entry : entries)
    file.tensors.push_back(
        {entry.name, view(block, data_start + static_cast<std::size_t>(entry.begin), entry)});
  return file;
}

SafeTensors read_safetensors(const std::string &path, const HeaderLimits &limits) {
  return parse_safetensors(map_file(path), path, limits);
}

std::string safetensors_header(const SafeTensors &file, std::vector<const Tensor *> &order) {
  std::vector<const NamedTensor *> sorted;
  for (const NamedTensor &named : file.tensors) sorted.push_back(&named);
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor *a, const NamedTensor *b) {
    return size_of(a->tensor.dtype) > size_of(b->tensor.dtype);
  });
  nlohmann::json header = nlohmann::json::object();
  std::set<std::string> names;
  const auto use = [&](const std::string &text) {
    if (!cli::is_utf8(text)) throw Error("safetensors: '" + cli::printable(text) + "' is not UTF-8");
  };
  if (!file.metadata.empty()) {
    nlohmann::json metadata = nlohmann::json::object();
    for (const auto &[key, value] : file.metadata) {
      use(key);
      use(value);
      metadata[key] = value;
    }
    header[kMetadataKey] = std::move(metadata);
  }
  std::size_t offset = 0;
  order.clear();
  for (const NamedTensor *named : sorted) {
    use(named->name);
    if (named->name == kMetadataKey || !names.insert(named->name).second)
      throw Error("safetensors: a file cannot have two tensors named '" + named->name + "'");
    const std::size_t bytes = named->tensor.bytes();
    header[named->name] = {{"dtype", type_name(named->tensor.dtype)},
                           {"shape", named->tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
    order.push_back(&named->tensor);
  }
  std::string text = header.dump();
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return length + text;
}

void write_safetensors(const SafeTensors &file, const ByteSink &sink) {
  std::vector<const Tensor *> order;
  const std::string header = safetensors_header(file, order);
  sink(header.data(), header.size());
  for (const Tensor *tensor : order)
    if (tensor->bytes() > 0) sink(tensor->data.get(), tensor->bytes());
}

} // namespace tl::shard
