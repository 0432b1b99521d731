// Shards back to back on a pipe, framed so that a stream that was cut off anywhere is an error and
// never a short data set. The format is specified in man/tl-formats.5.
#pragma once

#include "cli/io.h"
#include "shard/sink.h"

namespace tl::shard {

/// Sends rows as they come: a frame leaves once its rows outweigh its header or wait for long, so that the
/// receiver works while the sender computes.
class StreamSink : public ShardSink {
public:
  /// Writes the stream's header at once, so that the receiver can refuse it early.
  /// `name` is for messages: "stdout". Does not own the descriptor.
  StreamSink(int fd, std::string name, ShardMeta meta, std::optional<std::int64_t> expected = {});
  ~StreamSink() override;

  bool has(const Digest &) const override { return false; }
  void keep(const Member &member) override;
  void append(const Shard &rows) override;
  void tell(const SenderReport &report) override;
  SinkReport finish(std::int64_t skipped) override;
  void fail(const std::string &reason) noexcept override;
  const std::vector<std::string> &notes() const override;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads a stream. A frame's memory grows with the bytes that really arrive.
class StreamSource : public ShardSource {
public:
  /// Reads the stream's header. Text in its place (a login banner) is quoted in the error.
  StreamSource(cli::Descriptor input, std::string name);
  ~StreamSource() override;

  const ShardMeta &meta() const override;
  std::optional<std::int64_t> expected() const override;
  std::optional<Shard> next() override;
  std::int64_t skipped() const override;
  std::optional<Delivery> delivery() const override;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// True if the file begins as a stream does.
bool looks_like_stream(const Block &file);

} // namespace tl::shard
