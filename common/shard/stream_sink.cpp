#include "runtime/clock.h"
#include "shard/row_buffer.h"
#include "shard/sealed.h"
#include "shard/stream.h"
#include "shard/stream_format.h"
#include "json/bytes.h"
#include "json/document.h"

#include <algorithm>

namespace tl::shard {

namespace {
// A frame leaves when it is at least this large and this many times its shard's header, ...
constexpr std::size_t kFrameBytes = std::size_t{256} << 10;
constexpr std::size_t kHeaderShare = 32;
// ... or has this many rows or this age, so that tiny features do not make the receiver wait (but headers
// alone may not fill the link, so large ones make rarer frames), ...
constexpr std::int64_t kFrameRows = 1024;
constexpr double kFrameSeconds = 0.2;
constexpr double kHeaderBytesPerSecond = 64 << 10;
// ... or as many as the receiver can decompress without filling its memory.
constexpr std::size_t kUnpackedBytes = std::size_t{64} << 20;
} // namespace

struct StreamSink::State {
  int fd;
  std::string name;
  RowBuffer buffer;
  std::size_t frame_bytes = kFrameBytes;
  std::int64_t frame_rows = kFrameRows;
  double frame_seconds = kFrameSeconds;
  Stopwatch since_frame;
  bool mid_frame = false; // a write failed inside of a frame: nothing sensible can follow
  Hasher digests;         // of the digests of all frames so far
  SinkReport report;
  std::optional<SenderReport> sender;
  std::vector<std::string> notes;

  State(int descriptor, std::string sink_name, ShardMeta meta)
      : fd(descriptor), name(std::move(sink_name)), buffer(std::move(meta)) {}

  void write(const void *data, std::size_t size) {
    cli::write_full(fd, data, size, name);
    report.bytes += size;
  }

  void send(std::string_view tag, const std::string &payload) {
    mid_frame = true;
    const auto head = frame::head(tag, payload.size());
    const Digest digest = Hasher().raw(head.data(), head.size()).raw(payload.data(), payload.size()).digest();
    std::byte stored[frame::kDigestBytes];
    store_digest(digest, stored);
    write(head.data(), head.size());
    write(payload.data(), payload.size());
    write(stored, sizeof stored);
    digests.raw(stored, sizeof stored);
    mid_frame = false;
  }

  bool due() const {
    return buffer.bytes() >= frame_bytes || buffer.rows() >= frame_rows ||
           since_frame.seconds() >= frame_seconds;
  }

  void flush() {
    if (buffer.rows() == 0) return;
    Shard shard = buffer.take();
    shard.number = report.shards;
    std::string payload;
    write_shard(shard, string_sink(payload));
    send(frame::kShard, payload);
    since_frame.restart();
    ++report.shards;
    report.records += shard.size();
    report.written += shard.size();
  }
};

StreamSink::StreamSink(int fd, std::string name, ShardMeta meta, std::optional<std::int64_t> expected) {
  meta.check();
  state_ = std::make_unique<State>(fd, std::move(name), std::move(meta));
  json::Value header = {{"format", "tl-stream"}};
  std::size_t header_bytes = 0;
  for (const auto &[key, text] : to_metadata(state_->buffer.meta())) {
    header[key] = text;
    header_bytes += text.size();
  }
  if (expected) header["expected"] = std::to_string(*expected);
  state_->frame_bytes = std::max(kFrameBytes, kHeaderShare * header_bytes);
  state_->frame_seconds = std::max(kFrameSeconds, static_cast<double>(header_bytes) / kHeaderBytesPerSecond);
  const std::size_t fitting = kUnpackedBytes / std::max<std::size_t>(state_->buffer.meta().row_bytes(), 1);
  state_->frame_rows = std::clamp<std::int64_t>(static_cast<std::int64_t>(fitting), 1, kFrameRows);
  std::string start(frame::kMagic);
  for (unsigned shift = 0; shift < 32; shift += 8)
    start += static_cast<char>(frame::kVersion >> shift & 0xFF);
  state_->write(start.data(), start.size());
  state_->send(frame::kMeta, json::compact(header));
}

StreamSink::~StreamSink() = default;

void StreamSink::keep(const Member &) { throw Error(state_->name + ": a stream holds no earlier records"); }

void StreamSink::append(const Shard &rows) {
  check_rows(state_->buffer.meta(), rows);
  state_->buffer.add(rows, 0, rows.size());
  if (state_->due()) state_->flush();
}

void StreamSink::tell(const SenderReport &report) { state_->sender = report; }

SinkReport StreamSink::finish(std::int64_t skipped) {
  state_->flush();
  SinkReport &report = state_->report;
  report.skipped = skipped;
  json::Value done = {{"records", report.records},
                      {"skipped", skipped},
                      {"shards", report.shards},
                      {"digest", state_->digests.digest().hex()}};
  if (state_->sender) done["sender"] = to_json(*state_->sender);
  state_->send(frame::kDone, json::compact(done));
  return report;
}

void StreamSink::fail(const std::string &reason) noexcept {
  try {
    if (state_->mid_frame) return;
    state_->send(frame::kFail, json::compact({{"reason", json::escape_bytes(reason)}}));
  } catch (...) { // the reader may be gone; the caller already has an error to report
  }
}

const std::vector<std::string> &StreamSink::notes() const { return state_->notes; }

} // namespace tl::shard
