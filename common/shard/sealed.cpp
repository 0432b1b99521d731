#include "shard/sealed.h"

#include "cli/error.h"
#include "cli/log.h"
#include "shard/shard.h"

#include <charconv>
#include <cstring>

namespace tl::shard {

namespace {

constexpr int kVersion = 1;
constexpr const char *kZeros = "00000000000000000000000000000000"; // in place of the checksum's 32 digits
constexpr std::size_t kDigits = 32;
// Inside of a JSON string every quote has a backslash, so this is found only as a key and its value.
constexpr const char *kChecksumKey = "\"checksum\":\"";
// A shard names some values and its classes; nothing else in its header grows.
constexpr HeaderLimits kSealedLimits{std::size_t{16} << 20, 4096};

std::size_t checksum_position(std::string_view header) {
  const std::size_t key = header.find(kChecksumKey);
  return key == std::string_view::npos ? key : key + std::strlen(kChecksumKey);
}

} // namespace

std::uint64_t write_sealed(SafeTensors file, const std::string &format, const ByteSink &sink) {
  file.metadata["format"] = format;
  file.metadata["version"] = std::to_string(kVersion);
  file.metadata["checksum"] = kZeros;
  std::vector<const Tensor *> order;
  std::string header = safetensors_header(file, order);
  if (header.size() - 8 > kSealedLimits.bytes)
    throw Error("a shard's header of " + cli::human_bytes(static_cast<double>(header.size())) +
                " is over the limit of 16 MiB: too many or too long class names");
  Hasher hasher;
  hasher.raw(header.data(), header.size());
  std::uint64_t bytes = header.size();
  for (const Tensor *tensor : order) {
    hasher.raw(tensor->data.get(), tensor->bytes());
    bytes += tensor->bytes();
  }
  header.replace(checksum_position(header), kDigits, hasher.digest().hex());
  sink(header.data(), header.size());
  for (const Tensor *tensor : order)
    if (tensor->bytes() > 0) sink(tensor->data.get(), tensor->bytes());
  return bytes;
}

SafeTensors parse_sealed(const Block &block, const std::string &format, const std::string &origin,
                         Verify verify) {
  SafeTensors file = parse_safetensors(block, origin, kSealedLimits);
  check_format(file.metadata, format, origin);
  if (verify == Verify::no) return file;
  const std::string &checksum = required(file.metadata, "checksum", origin);
  const char *bytes = reinterpret_cast<const char *>(block.data.get());
  const std::size_t position = checksum_position({bytes, block.size});
  Hasher hasher;
  bool good = checksum.size() == kDigits && position != std::string::npos &&
              position <= block.size - kDigits &&
              std::memcmp(bytes + position, checksum.data(), kDigits) == 0;
  if (good) {
    hasher.raw(bytes, position).raw(kZeros, kDigits);
    hasher.raw(bytes + position + kDigits, block.size - position - kDigits);
    good = hasher.digest().hex() == checksum;
  }
  if (!good) throw FormatError(origin + ": damaged: its checksum does not agree with its bytes");
  return file;
}

const std::string &required(const Metadata &metadata, const std::string &key, const std::string &origin) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) throw FormatError(origin + ": its metadata lack '" + key + "'");
  return found->second;
}

std::int64_t required_count(const Metadata &metadata, const std::string &key, const std::string &origin) {
  const std::string &text = required(metadata, key, origin);
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw FormatError(origin + ": metadata '" + key + "': '" + cli::printable(text) + "' is not a count");
  return value;
}

void check_format(const Metadata &metadata, const std::string &format, const std::string &origin) {
  const auto found = metadata.find("format");
  if (found == metadata.end() || found->second != format)
    throw ForeignFile(origin + ": not a " + format + " file" +
                      (found == metadata.end() ? " (its metadata name no format)"
                                               : ", but '" + cli::printable(found->second) + "'"));
  const std::int64_t version = required_count(metadata, "version", origin);
  if (version > kVersion)
    throw NewerVersion(origin + ": written by a newer tl-tools (version " + std::to_string(version) +
                       " of the format, this program reads up to " + std::to_string(kVersion) + "); upgrade");
  if (version < 1) throw FormatError(origin + ": version " + std::to_string(version) + " does not exist");
}

const Tensor &required(const SafeTensors &file, const std::string &name, DType dtype, const Shape &shape,
                       const std::string &origin) {
  const Tensor *tensor = file.find(name);
  if (!tensor) throw FormatError(origin + ": tensor '" + cli::printable(name) + "' is missing");
  if (tensor->dtype != dtype || tensor->shape != shape)
    throw FormatError(origin + ": tensor '" + cli::printable(name) + "' is " + to_string(tensor->shape) +
                      " of " + std::string(name_of(tensor->dtype)) + ", but must be " + to_string(shape) +
                      " of " + std::string(name_of(dtype)));
  return *tensor;
}

void store_digest(const Digest &digest, std::byte *bytes) {
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(digest.high >> (56 - 8 * i) & 0xFF);
    bytes[8 + i] = static_cast<std::byte>(digest.low >> (56 - 8 * i) & 0xFF);
  }
}

Digest load_digest(const std::byte *bytes) {
  Digest digest;
  for (int i = 0; i < 8; ++i) {
    digest.high = digest.high << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    digest.low = digest.low << 8 | std::to_integer<std::uint64_t>(bytes[8 + i]);
  }
  return digest;
}

Tensor to_tensor(const std::vector<std::int64_t> &column) {
  Tensor tensor = Tensor::empty(DType::i64, {static_cast<std::int64_t>(column.size())});
  if (!column.empty()) std::memcpy(tensor.data.get(), column.data(), tensor.bytes());
  return tensor;
}

Tensor to_tensor(const std::vector<Digest> &column) {
  Tensor tensor = Tensor::empty(DType::u8, {static_cast<std::int64_t>(column.size()), 16});
  for (std::size_t i = 0; i < column.size(); ++i) store_digest(column[i], tensor.data.get() + 16 * i);
  return tensor;
}

void add_strings(SafeTensors &file, const std::string &name, const std::vector<std::string> &column) {
  std::vector<std::int64_t> offset{0};
  for (const std::string &text : column)
    offset.push_back(offset.back() + static_cast<std::int64_t>(text.size()));
  Tensor blob = Tensor::empty(DType::u8, {offset.back()});
  std::byte *end = blob.data.get();
  for (const std::string &text : column) {
    if (!text.empty()) std::memcpy(end, text.data(), text.size());
    end += text.size();
  }
  file.tensors.push_back({name, blob});
  file.tensors.push_back({name + "_offset", to_tensor(offset)});
}

std::vector<std::int64_t> integers(const SafeTensors &file, const std::string &name, std::int64_t rows,
                                   const std::string &origin) {
  const Tensor &tensor = required(file, name, DType::i64, {rows}, origin);
  const auto *values = tensor.as<std::int64_t>();
  return {values, values + rows};
}

std::vector<Digest> digests(const SafeTensors &file, const std::string &name, std::int64_t rows,
                            const std::string &origin) {
  const Tensor &tensor = required(file, name, DType::u8, {rows, 16}, origin);
  std::vector<Digest> column(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < column.size(); ++i) column[i] = load_digest(tensor.data.get() + 16 * i);
  return column;
}

std::vector<std::int64_t> offsets(const SafeTensors &file, const std::string &name, std::int64_t rows,
                                  const std::string &origin) {
  const Tensor *blob = file.find(name);
  if (!blob || blob->dtype != DType::u8 || blob->shape.size() != 1)
    throw FormatError(origin + ": tensor '" + name + "' is missing or not bytes");
  const std::vector<std::int64_t> offset = integers(file, name + "_offset", rows + 1, origin);
  bool good = offset.front() == 0 && offset.back() == blob->shape[0];
  for (std::size_t i = 1; i < offset.size(); ++i) good = good && offset[i - 1] <= offset[i];
  if (!good) throw FormatError(origin + ": tensor '" + name + "_offset' does not divide '" + name + "'");
  return offset;
}

std::vector<std::string> strings(const SafeTensors &file, const std::string &name, std::int64_t rows,
                                 const std::string &origin) {
  const std::vector<std::int64_t> offset = offsets(file, name, rows, origin);
  const char *bytes = reinterpret_cast<const char *>(file.find(name)->data.get());
  std::vector<std::string> column;
  for (std::size_t i = 0; i + 1 < offset.size(); ++i)
    column.emplace_back(bytes + offset[i], bytes + offset[i + 1]);
  return column;
}

} // namespace tl::shard
