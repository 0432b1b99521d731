// The kinds of places behind one name: folder, stream, file.
#include "shard/sink.h"

#include "cli/io.h"
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
    cli::AtomicFile file(path_);
    SinkReport report;
    report.bytes = write_shard(shard, [&](const void *data, std::size_t size) { file.write(data, size); });
    file.commit();
    report.records = report.written = shard.size();
    report.skipped = skipped;
    report.shards = 1;
    return report;
  }
  void fail(const std::string &) noexcept override {}
  const std::vector<std::string> &notes() const override { return notes_; }

private:
  std::string path_;
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

} // namespace

std::unique_ptr<ShardSource> open_shards(const std::string &path) {
  if (path == "-") return std::make_unique<StreamSource>(cli::open_input("-"), "stdin");
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) throw SystemError("open " + path, errno);
  if (S_ISDIR(info.st_mode)) return std::make_unique<FolderSource>(path);
  if (!S_ISREG(info.st_mode)) return std::make_unique<StreamSource>(cli::open_input(path), path);
  const Block block = map_file(path);
  if (looks_like_stream(block)) return std::make_unique<StreamSource>(cli::open_input(path), path);
  return std::make_unique<FileSource>(parse_shard(block, path));
}

std::unique_ptr<ShardSink> create_sink(const std::string &path, const ShardMeta &meta,
                                       const SinkOptions &options) {
  if (path.empty()) throw UsageError("the output has no name; give a folder, a .safetensors file, or -");
  if (path == "-") return std::make_unique<StreamSink>(STDOUT_FILENO, "stdout", meta, options.expected);
  const bool file = path.size() > kFileSuffix.size() &&
                    path.compare(path.size() - kFileSuffix.size(), kFileSuffix.size(), kFileSuffix) == 0;
  if (file) return std::make_unique<FileSink>(path, meta);
  return std::make_unique<FolderSink>(path, meta, options);
}

} // namespace tl::shard
