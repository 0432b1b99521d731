// The kinds of places behind one name: folder, stream, file.
#include "shard/sink.h"

#include "cli/io.h"
#include "object/store.h"
#include "shard/folder.h"
#include "shard/row_buffer.h"
#include "shard/stream.h"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tl::shard {

namespace {

constexpr std::string_view kFileSuffix = ".safetensors";
// A lone file is put together in memory.
constexpr std::size_t kMaxFile = std::size_t{8} << 30;

class FileSink : public ShardSink {
public:
  FileSink(std::string path, ShardMeta meta) : path_(std::move(path)), buffer_(std::move(meta)) {
    buffer_.meta().check();
    if (!object::is_url(path_)) return;
    const object::Url url = object::parse_url(path_);
    store_ = object::open_store(url);
    store_->head(url.key); // whether it can be reached is known before the work is done
  }
  bool has(const Digest &) const override { return false; }
  void keep(const Member &) override { throw Error(path_ + ": a file holds no earlier records"); }
  void append(const Shard &rows) override {
    check_rows(buffer_.meta(), rows);
    buffer_.add(rows, 0, rows.size());
    if (buffer_.bytes() > kMaxFile)
      throw Error(path_ + ": more than 8 GiB of features for one file; give a folder instead");
  }
  SinkReport finish(std::int64_t skipped) override {
    Shard shard = buffer_.take();
    shard.skipped = skipped;
    SinkReport report;
    report.bytes = write(shard);
    report.records = report.written = shard.size();
    report.skipped = skipped;
    report.shards = 1;
    return report;
  }
  void fail(const std::string &) noexcept override {}
  const std::vector<std::string> &notes() const override { return notes_; }

private:
  std::uint64_t write(const Shard &shard) const {
    if (store_) {
      std::string bytes;
      write_shard(shard, string_sink(bytes));
      store_->put(object::parse_url(path_).key, bytes);
      return bytes.size();
    }
    cli::AtomicFile file(path_);
    const std::uint64_t size =
        write_shard(shard, [&](const void *data, std::size_t part) { file.write(data, part); });
    file.commit();
    return size;
  }

  std::string path_;
  std::shared_ptr<const object::ObjectStore> store_; // null: a file
  RowBuffer buffer_;
  std::vector<std::string> notes_;
};

class FileSource : public ShardSource {
public:
  explicit FileSource(Shard shard) : meta_(shard.meta), records_(shard.size()), skipped_(shard.skipped) {
    if (records_ > 0) shard_ = std::move(shard);
  }
  const ShardMeta &meta() const override { return meta_; }
  std::optional<std::int64_t> expected() const override { return records_; }
  std::optional<Shard> next() override { return std::exchange(shard_, std::nullopt); }
  std::int64_t skipped() const override { return skipped_; }

private:
  ShardMeta meta_;
  std::int64_t records_, skipped_;
  std::optional<Shard> shard_;
};

constexpr std::size_t kStreamBytes = std::size_t{1} << 20; // more than a frame, which leaves when it is full

bool is_file(const std::string &path) {
  return path.size() > kFileSuffix.size() &&
         path.compare(path.size() - kFileSuffix.size(), kFileSuffix.size(), kFileSuffix) == 0;
}

/// A folder in an object store. Its rows come in order, once: it is no FolderSource, whose rows may be asked
/// for again and again.
class DistantSource : public ShardSource {
public:
  explicit DistantSource(const std::string &url) : folder_(url) {}
  const ShardMeta &meta() const override { return folder_.meta(); }
  std::optional<std::int64_t> expected() const override { return folder_.expected(); }
  std::optional<Shard> next() override { return folder_.next(); }
  std::int64_t skipped() const override { return folder_.skipped(); }

private:
  FolderSource folder_;
};

std::unique_ptr<ShardSource> open_objects(const std::string &path) {
  if (!is_file(path)) return std::make_unique<DistantSource>(path);
  const object::Url url = object::parse_url(path);
  const object::Content content = object::open_store(url)->get(url.key);
  return std::make_unique<FileSource>(parse_shard({content.data, content.size}, path));
}

} // namespace

std::unique_ptr<ShardSource> open_shards(const std::string &path) {
  if (object::is_url(path)) return open_objects(path);
  if (path == "-") return std::make_unique<StreamSource>(cli::open_input("-"), "stdin");
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) throw SystemError("open " + path, errno);
  if (S_ISDIR(info.st_mode)) return std::make_unique<FolderSource>(path);
  if (!S_ISREG(info.st_mode)) return std::make_unique<StreamSource>(cli::open_input(path), path);
  const Block block = map_file(path);
  if (looks_like_stream(block)) return std::make_unique<StreamSource>(cli::open_input(path), path);
  return std::make_unique<FileSource>(parse_shard(block, path));
}

std::size_t sink_memory(const std::string &path, std::size_t row_bytes, const SinkOptions &options) {
  if (path == "-") return kStreamBytes;
  const std::size_t all = row_bytes * static_cast<std::size_t>(options.expected.value_or(0));
  const std::size_t copies = object::is_url(path) ? 2 : 1; // of what is written: an object on its way, too
  // The rows that come in, and once more those that are written.
  if (is_file(path)) return all + copies * all;
  const std::size_t shard = std::min(all, options.bytes_per_shard);
  return shard + copies * std::min(all, kFullShardsWritten * shard);
}

std::unique_ptr<ShardSink> create_sink(const std::string &path, const ShardMeta &meta,
                                       const SinkOptions &options) {
  if (path.empty()) throw UsageError("the output has no name; give a folder, a .safetensors file, or -");
  if (path == "-") return std::make_unique<StreamSink>(STDOUT_FILENO, "stdout", meta, options.expected);
  if (is_file(path)) return std::make_unique<FileSink>(path, meta);
  return std::make_unique<FolderSink>(path, meta, options);
}

} // namespace tl::shard
