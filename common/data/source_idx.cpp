// IDX files, as MNIST and its relatives are published: pictures, and labels beside them.
// Layout: 0 0 type rank, then one big-endian 32-bit size a dimension, then the values.
#include "cli/error.h"
#include "data/listing.h"
#include "shard/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include <zlib.h>

namespace tl::data {

namespace fs = std::filesystem;

namespace {

constexpr std::uint8_t kUnsignedByte = 8;
constexpr std::int64_t kMaxUnpacked = std::int64_t{1} << 34;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 27;
// The best that deflate can do; a file that promises more is damaged.
constexpr std::int64_t kMaxRatio = 1032;

/// The bytes of a plain or gzip file, read forwards.
class Reader {
public:
  explicit Reader(const std::string &path) : path_(path), file_(shard::map_file(path)) {
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(file_.data.get());
    packed_ = file_.size > 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
    if (packed_ && inflateInit2(&inflate_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Reader() {
    if (packed_) inflateEnd(&inflate_);
  }
  Reader(const Reader &) = delete;
  Reader &operator=(const Reader &) = delete;

  void read(void *to, std::size_t size) {
    if (packed_) {
      if (unpack(to, size) < size) throw FormatError(path_ + ": ends early");
      return;
    }
    if (size > file_.size - position_) throw FormatError(path_ + ": ends early");
    std::memcpy(to, file_.data.get() + position_, size);
    position_ += size;
  }

  /// Throws unless all was read; for gzip that also checks its checksum.
  void want_end() {
    char more = 0;
    if (packed_ ? unpack(&more, 1) > 0 : position_ < file_.size)
      throw FormatError(path_ + ": longer than its header says");
    if (packed_ && !ended_) throw FormatError(path_ + ": ends early");
  }

  bool packed() const { return packed_; }
  const shard::Block &file() const { return file_; }

private:
  std::size_t unpack(void *to, std::size_t size) {
    std::size_t done = 0;
    while (done < size && !ended_) {
      check_interrupt();
      const std::size_t in = std::min<std::size_t>(file_.size - position_, kChunk);
      const std::size_t out = std::min<std::size_t>(size - done, kChunk);
      inflate_.next_in = reinterpret_cast<Bytef *>(file_.data.get()) + position_;
      inflate_.avail_in = static_cast<uInt>(in);
      inflate_.next_out = static_cast<Bytef *>(to) + done;
      inflate_.avail_out = static_cast<uInt>(out);
      const int code = inflate(&inflate_, Z_NO_FLUSH);
      position_ += in - inflate_.avail_in;
      done += out - inflate_.avail_out;
      ended_ = code == Z_STREAM_END;
      if (code == Z_BUF_ERROR) break; // nothing left to read
      if (code != Z_OK && code != Z_STREAM_END)
        throw FormatError(path_ + ": damaged: " + (inflate_.msg ? inflate_.msg : "not gzip data"));
    }
    return done;
  }

  static constexpr std::size_t kChunk = std::size_t{1} << 24;
  std::string path_;
  shard::Block file_;
  std::size_t position_ = 0;
  bool packed_ = false;
  bool ended_ = false;
  z_stream inflate_ = {};
};

struct Header {
  Shape shape;
  std::int64_t bytes = 0; // of the header itself
};

Header read_header(Reader &reader, const std::string &path) {
  std::uint8_t magic[4];
  reader.read(magic, 4);
  if (magic[0] != 0 || magic[1] != 0 || magic[3] < 1 || magic[3] > 4)
    throw FormatError(path + ": not an IDX file");
  if (magic[2] != kUnsignedByte)
    throw FormatError(path + ": IDX of another type than unsigned bytes is not supported");
  Header header;
  for (int d = 0; d < magic[3]; ++d) {
    std::uint8_t b[4];
    reader.read(b, 4);
    header.shape.push_back(std::int64_t{b[0]} << 24 | std::int64_t{b[1]} << 16 | b[2] << 8 | b[3]);
  }
  header.bytes = 4 + 4 * std::int64_t{magic[3]};
  const std::int64_t count = element_count(header.shape);
  const auto size = static_cast<std::int64_t>(reader.file().size);
  const bool impossible = reader.packed() ? count / kMaxRatio > size : count + header.bytes != size;
  if (impossible || count > kMaxUnpacked || header.shape[0] > kMaxRows)
    throw FormatError(path + ": its header says " + to_string(header.shape) + ", which does not fit its " +
                      std::to_string(size) + " bytes");
  return header;
}

std::vector<std::int64_t> read_labels(const std::string &path, std::int64_t count) {
  Reader reader(path);
  const Header header = read_header(reader, path);
  if (header.shape.size() != 1 || header.shape[0] != count)
    throw FormatError(path + ": " + to_string(header.shape) + " labels for " + std::to_string(count) +
                      " pictures");
  std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
  reader.read(values.data(), values.size());
  reader.want_end();
  return {values.begin(), values.end()};
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const std::size_t at = text.rfind(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string without_gz(const std::string &name) {
  return name.size() > 3 && name.compare(name.size() - 3, 3, ".gz") == 0 ? name.substr(0, name.size() - 3)
                                                                         : name;
}

/// "train-images-idx3-ubyte.gz" -> "train"; "" for another name.
std::string idx_prefix(const std::string &name) {
  const std::size_t at = name.rfind("images");
  const std::string rest = at == std::string::npos ? "" : without_gz(name.substr(at + 6));
  if (rest.size() != 11 || rest.compare(1, 3, "idx") != 0 || rest.compare(5, 6, "-ubyte") != 0) return "";
  const std::string prefix = name.substr(0, at);
  return prefix.empty() ? "images" : prefix.substr(0, prefix.find_last_not_of("-.") + 1);
}

/// The labels of `images`, packed or not; "" when there are none.
std::string labels_beside(const fs::path &images) {
  std::string name = replaced(images.filename().string(), "images", "labels");
  name = without_gz(replaced(replaced(name, "idx3", "idx1"), "idx4", "idx1"));
  std::error_code failed;
  for (const std::string &candidate : {name, name + ".gz"}) {
    const fs::path path = images.parent_path() / candidate;
    if (path != images && fs::is_regular_file(path, failed)) return path.string();
  }
  return "";
}

} // namespace

std::string find_idx(const std::string &folder, const std::string &split) {
  std::map<std::string, std::string> found; // prefix -> name
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const std::string prefix = name[0] == '.' ? "" : idx_prefix(name);
    if (prefix.empty()) continue;
    std::string &chosen = found[prefix];
    if (chosen.empty() || name.size() < chosen.size()) chosen = name; // the unpacked one
  }
  if (failed) throw SystemError("read folder " + folder, failed.value());
  if (found.empty()) return "";
  std::string names;
  for (const auto &[prefix, name] : found) names += (names.empty() ? "" : ", ") + prefix;
  std::string wanted = split == "test" && !found.count("test") ? "t10k" : split;
  if (split.empty() && found.size() == 1) wanted = found.begin()->first;
  if (!found.count(wanted))
    throw UsageError(folder + ": " + (split.empty() ? "choose a split" : "has no split '" + split + "'") +
                     ": " + names);
  return (fs::path(folder) / found[wanted]).string();
}

Listing list_idx(const std::string &images) {
  Listing listing;
  listing.content = Content::rows;
  Reader reader(images);
  const Header header = read_header(reader, images);
  if (header.shape.size() < 2)
    throw FormatError(images + ": holds labels; give the images file, the labels are found beside it");
  listing.row_shape.assign(header.shape.begin() + 1, header.shape.end());
  if (reader.packed()) {
    listing.table = Tensor::empty(DType::u8, header.shape);
    reader.read(listing.table.data.get(), listing.table.bytes());
    reader.want_end();
  } else {
    listing.table.dtype = DType::u8;
    listing.table.shape = header.shape;
    const auto &file = reader.file();
    listing.table.data = std::shared_ptr<std::byte>(file.data, file.data.get() + header.bytes);
  }
  const std::string name = fs::path(images).filename().string();
  const std::string prefix = idx_prefix(name).empty() ? name : idx_prefix(name);
  add_rows(listing, prefix);
  const std::string labels = labels_beside(images);
  if (labels.empty())
    listing.notes.push_back("no labels file beside " + name);
  else
    set_numbered_labels(listing, read_labels(labels, header.shape[0]), labels);
  return listing;
}

} // namespace tl::data
