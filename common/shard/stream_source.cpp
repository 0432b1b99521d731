#include "cli/log.h"
#include "cli/utf8.h"
#include "runtime/clock.h"
#include "shard/sealed.h"
#include "shard/stream.h"
#include "shard/stream_format.h"
#include "json/bytes.h"
#include "json/document.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <unistd.h>

namespace tl::shard {

namespace {

// Memory is asked for in steps, each only after the one before has been filled.
constexpr std::size_t kFirstBlock = std::size_t{64} << 20;
constexpr std::uint64_t kMostRecords = std::uint64_t{1} << 48;

struct Frame {
  std::string tag;
  Block payload;
  std::string text() const { return {reinterpret_cast<const char *>(payload.data.get()), payload.size}; }
};

Block heap_block(std::size_t size) {
  return {Tensor::empty(DType::u8, {static_cast<std::int64_t>(size)}).data, size};
}

/// What a stream that does not begin as one looks like, for the message.
std::string looks_like(const std::string &start) {
  if (start.size() > 8 && start[8] == '{' && start.compare(4, 4, std::string(4, '\0')) == 0)
    return "looks like a safetensors file; give its name instead of sending it through a pipe";
  const std::string line = start.substr(0, start.find('\n'));
  // The last character may be cut in the middle.
  std::size_t valid = 0;
  while (valid < line.size() &&
         (static_cast<unsigned char>(line[valid]) >= 0x20 || line[valid] == '\t' || line[valid] == '\r')) {
    const std::size_t length = cli::utf8_length(std::string_view(line).substr(valid));
    if (length == 0) break;
    valid += length;
  }
  if (valid + 4 > line.size() && valid >= std::min<std::size_t>(line.size(), 4) && !start.empty()) {
    if (start[0] == '{') return "looks like JSON: '" + cli::printable(line.substr(0, valid)) + "'";
    return "looks like text: '" + cli::printable(line.substr(0, valid)) + "'; is a login script printing?";
  }
  std::string hex;
  for (std::size_t i = 0; i < std::min<std::size_t>(start.size(), 8); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%s%02x", i ? " " : "", static_cast<unsigned char>(start[i]));
    hex += digits;
  }
  return "begins with the bytes " + hex;
}

} // namespace

struct StreamSource::State {
  cli::Descriptor input;
  std::string name;
  ShardMeta meta;
  std::map<std::string, std::string> metadata; // of meta, to compare the shards' with
  std::optional<std::int64_t> expected;
  std::int64_t records = 0, shards = 0, skipped = 0;
  Hasher digests;
  bool done = false;
  Delivery delivery;
  Stopwatch since_first; // restarted when the first shard is here
  double parsing = 0;

  [[noreturn]] void cut_off() const {
    throw FormatError(name + ": the stream ended after " + std::to_string(records) +
                      " records without its end marker: the sender failed or was cut off");
  }

  void fill(void *buffer, std::size_t size) {
    const Stopwatch watch;
    if (cli::read_full(input.get(), buffer, size, name) != size) cut_off();
    delivery.reading += watch.seconds();
    delivery.bytes += size;
  }

  /// The next bytes that arrive within a moment: enough to quote a banner, without waiting for more.
  std::string peek(std::size_t most) {
    std::string text(most, '\0');
    pollfd ready{input.get(), POLLIN, 0};
    if (poll(&ready, 1, 200) <= 0) return "";
    const ssize_t got = ::read(input.get(), text.data(), most);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

  void read_start() {
    std::string start(frame::kMagic.size(), '\0');
    start.resize(cli::read_full(input.get(), start.data(), start.size(), name));
    if (start.empty()) throw FormatError(name + ": empty: the sender wrote nothing; did it fail?");
    if (start != frame::kMagic) {
      if (frame::kMagic.substr(0, start.size()) == start) cut_off();
      start += peek(80);
      throw FormatError(name + ": not a stream of shards: it " + looks_like(start));
    }
    std::byte bytes[4];
    fill(bytes, sizeof bytes);
    std::uint32_t version = 0;
    for (int i = 3; i >= 0; --i) version = version << 8 | std::to_integer<std::uint32_t>(bytes[i]);
    if (version > frame::kVersion)
      throw NewerVersion(name + ": sent by a newer tl-tools (version " + std::to_string(version) +
                         " of the stream, this program reads up to " + std::to_string(frame::kVersion) +
                         "); upgrade");
    if (version < 1) throw FormatError(name + ": stream version 0 does not exist");
  }

  Block read_payload(std::uint64_t length) {
    Block block = heap_block(static_cast<std::size_t>(std::min<std::uint64_t>(length, kFirstBlock)));
    fill(block.data.get(), block.size);
    while (block.size < length) {
      Block larger = heap_block(static_cast<std::size_t>(std::min<std::uint64_t>(length, 2 * block.size)));
      std::memcpy(larger.data.get(), block.data.get(), block.size);
      fill(larger.data.get() + block.size, larger.size - block.size);
      block = std::move(larger);
    }
    return block;
  }

  Frame read_frame() {
    std::array<std::byte, frame::kHeadBytes> head{};
    fill(head.data(), head.size());
    Frame frame;
    frame.tag.assign(reinterpret_cast<const char *>(head.data()), frame::kTagBytes);
    const std::string place = name + ": frame after " + std::to_string(records) + " records: ";
    if (frame.tag != frame::kMeta && frame.tag != frame::kShard && frame.tag != frame::kDone &&
        frame.tag != frame::kFail)
      throw FormatError(place + "damaged in transit: no frame is called '" + cli::printable(frame.tag) + "'");
    const std::uint64_t length = frame::length_of(head);
    if (length > (frame.tag == frame::kShard ? frame::kMaxShard : frame::kMaxText))
      throw FormatError(place + "claims the impossible length of " + std::to_string(length) + " bytes");
    frame.payload = read_payload(length);
    std::byte stored[frame::kDigestBytes];
    fill(stored, sizeof stored);
    const Digest digest =
        Hasher().raw(head.data(), head.size()).raw(frame.payload.data.get(), frame.payload.size).digest();
    if (load_digest(stored) != digest) throw FormatError(place + "damaged in transit: its checksum is wrong");
    if (frame.tag != frame::kDone) digests.raw(stored, sizeof stored);
    return frame;
  }

  void read_meta() {
    const Frame frame = read_frame();
    if (frame.tag == frame::kFail) sender_failed(frame);
    if (frame.tag != frame::kMeta)
      throw FormatError(name + ": the stream does not begin with its meta frame");
    const json::Value header = json::parse(frame.text(), name + ": meta");
    std::map<std::string, std::string> fields;
    for (const auto &[key, value] : header.items()) {
      if (!value.is_string())
        throw FormatError(name + ": meta '" + cli::printable(key) + "' is not a string");
      fields[key] = value.get<std::string>();
    }
    if (required(fields, "format", name + ": meta") != "tl-stream")
      throw FormatError(name + ": meta: not a tl-stream header");
    meta = meta_from_metadata(fields, name + ": meta");
    meta.zstd = false; // of what is handed out
    metadata = to_metadata(meta);
    if (fields.count("expected")) expected = required_count(fields, "expected", name + ": meta");
  }

  [[noreturn]] void sender_failed(const Frame &frame) const {
    const json::Value failure = json::parse(frame.text(), name + ": failure marker");
    const auto found = failure.find("reason");
    const bool told = found != failure.end() && found->is_string();
    const std::string reason = told ? found->get<std::string>() : "it gave no reason";
    throw Error(name + ": the sender failed after " + std::to_string(records) +
                " records: " + json::unescape_bytes(reason));
  }

  Shard take_shard(const Frame &frame) {
    const std::string place = name + ": shard " + std::to_string(shards);
    const Stopwatch watch;
    Shard shard = parse_shard(frame.payload, place);
    parsing += watch.seconds();
    if (shard.number != shards)
      throw FormatError(place + ": carries the number " + std::to_string(shard.number));
    if (to_metadata(shard.meta) != metadata)
      throw FormatError(place + ": is of another extraction than the stream's header says");
    if (shards++ == 0) {
      delivery = {};
      since_first.restart();
    } else {
      delivery.records += shard.size();
      delivery.seconds = since_first.seconds();
    }
    records += shard.size();
    return shard;
  }

  void take_end(const Frame &frame) {
    json::Value end = json::parse(frame.text(), name + ": end marker");
    if (end.is_object() && end.contains("sender")) {
      delivery.sender = sender_from_json(end["sender"], name + ": end marker: sender");
      end.erase("sender");
    }
    json::Value counts = {
        {"records", records}, {"skipped", 0}, {"shards", shards}, {"digest", digests.digest().hex()}};
    const auto found = end.find("skipped");
    if (found != end.end() && found->is_number_unsigned() && found->get<std::uint64_t>() < kMostRecords)
      counts["skipped"] = *found;
    if (end != counts)
      throw FormatError(name + ": the end marker tells of " + json::compact(end) + ", but what arrived is " +
                        json::compact(counts) + ": frames were lost or repeated");
    skipped = counts["skipped"].get<std::int64_t>();
    char more = 0;
    if (cli::read_full(input.get(), &more, 1, name) != 0)
      throw FormatError(name + ": bytes follow the end marker: one stream only; join data sets as folders");
    done = true;
  }
};

StreamSource::StreamSource(cli::Descriptor input, std::string name) : state_(std::make_unique<State>()) {
  state_->input = std::move(input);
  state_->name = std::move(name);
  state_->read_start();
  state_->read_meta();
}

StreamSource::~StreamSource() = default;

const ShardMeta &StreamSource::meta() const { return state_->meta; }
std::optional<std::int64_t> StreamSource::expected() const { return state_->expected; }
std::int64_t StreamSource::skipped() const { return state_->skipped; }

std::optional<Delivery> StreamSource::delivery() const {
  if (!state_->done) return std::nullopt;
  Delivery delivery = state_->delivery;
  delivery.parsing = state_->parsing;
  return delivery;
}

std::optional<Shard> StreamSource::next() {
  if (state_->done) return std::nullopt;
  const Frame frame = state_->read_frame();
  if (frame.tag == frame::kShard) return state_->take_shard(frame);
  if (frame.tag == frame::kFail) state_->sender_failed(frame);
  if (frame.tag == frame::kMeta)
    throw FormatError(state_->name + ": a second meta frame: two streams were mixed");
  state_->take_end(frame);
  return std::nullopt;
}

bool looks_like_stream(const Block &file) {
  return file.size >= frame::kMagic.size() &&
         std::memcmp(file.data.get(), frame::kMagic.data(), frame::kMagic.size()) == 0;
}

} // namespace tl::shard
