#include "profile/stream.h"

#include "cli/error.h"
#include "cli/io.h"
#include "shard/row_buffer.h"
#include "shard/stream.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <future>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace tl::profile {

namespace {

constexpr std::int64_t kWidth = 64 << 10; // numbers of a record
constexpr std::int64_t kBatch = 16, kBatches = 8;
constexpr auto kBytes = static_cast<double>(sizeof(float) * kWidth * kBatch * kBatches);
constexpr int kRounds = 3;

/// Seconds that this thread has had a processor.
double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Connection {
  cli::Descriptor from, to;
};

std::optional<Connection> connect_to_self() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto *const name = reinterpret_cast<sockaddr *>(&address);
  const cli::Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connection ends{cli::Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), {}};
  const bool reached = listener.valid() && ends.from.valid() && ::bind(listener.get(), name, size) == 0 &&
                       ::listen(listener.get(), 1) == 0 && ::getsockname(listener.get(), name, &size) == 0 &&
                       ::connect(ends.from.get(), name, size) == 0;
  if (reached) ends.to = cli::Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!ends.to.valid()) return std::nullopt;
  return ends;
}

shard::ShardMeta made_up_meta() {
  shard::ShardMeta meta;
  meta.values = {{"features", hash_text("features"), DType::f32, {kWidth}}};
  meta.classes = {"a"};
  return meta;
}

shard::Shard made_up_batch() {
  shard::Shard batch;
  batch.values = {Tensor::empty(DType::f32, {kBatch, kWidth})};
  std::fill_n(batch.values[0].as<float>(), kBatch * kWidth, 1.0F);
  for (std::int64_t row = 0; row < kBatch; ++row) {
    batch.labels.push_back(0);
    batch.records.push_back(hash_bytes(&row, sizeof row));
    batch.rows.push_back(row);
    batch.ids.push_back(std::to_string(row));
  }
  return batch;
}

/// Returns the processor's seconds.
double send(int fd, const shard::Shard &batch) {
  const double before = processor_seconds();
  shard::StreamSink sink(fd, "connection", made_up_meta());
  for (std::int64_t i = 0; i < kBatches; ++i) sink.append(batch);
  sink.finish(0);
  return processor_seconds() - before;
}

double receive(cli::Descriptor from) {
  const double before = processor_seconds();
  shard::StreamSource source(std::move(from), "connection");
  shard::RowBuffer rows(source.meta());
  while (const std::optional<shard::Shard> shard = source.next()) rows.add(*shard, 0, shard->size());
  const cli::Descriptor kept(::memfd_create("features", MFD_CLOEXEC));
  if (!kept.valid()) throw SystemError("create a file in memory", errno);
  write_shard(rows.take(), shard::descriptor_sink(kept.get(), "memory"));
  return processor_seconds() - before;
}

} // namespace

std::optional<plan::StreamSpeed> measure_stream() {
  const shard::Shard batch = made_up_batch();
  plan::StreamSpeed speed;
  for (int round = 0; round < kRounds; ++round) {
    std::optional<Connection> ends = connect_to_self();
    if (!ends) return std::nullopt;
    std::future<double> receiving = std::async(std::launch::async, receive, std::move(ends->to));
    cli::Descriptor sender = std::move(ends->from); // if it fails, closed before the receiver is waited for
    const double sent = send(sender.get(), batch);
    sender.close("connection"); // the receiver makes sure that nothing follows
    const double received = receiving.get();
    speed.send_bandwidth = std::max(speed.send_bandwidth, kBytes / sent);
    speed.receive_bandwidth = std::max(speed.receive_bandwidth, kBytes / received);
  }
  return speed;
}

} // namespace tl::profile
