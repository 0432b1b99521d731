#include "codec/numbers.h"
#include "shard/coding.h"
#include "shard/sealed.h"
#include "shard/stream.h"
#include "support/shard_folder.h"

#include <cmath>
#include <fcntl.h>
#include <limits>
#include <unistd.h>

using namespace tl;
using namespace tl::test;
using codec::Codec;
using codec::Number;

namespace {

/// A map, a sequence, a vector, a scalar, an empty value, and integers that no codec touches.
ShardMeta computed_meta() {
  ShardMeta meta = values_meta();
  meta.values.clear();
  const std::vector<Shape> shapes = {{3, 5, 5}, {20, 6}, {7}, {}, {0, 4, 4}};
  for (const Shape &shape : shapes) {
    const std::string name = "v" + std::to_string(meta.values.size());
    meta.values.push_back({name, hash_text(name), DType::f32, shape});
  }
  meta.values.push_back({"scale.ids", hash_text("ids"), DType::i64, {2}});
  return meta;
}

Shard computed_rows(std::int64_t first, std::int64_t count) {
  Shard rows = make_rows(computed_meta(), first, count);
  for (Tensor &value : rows.values) {
    if (value.dtype != DType::f32) continue;
    const std::int64_t width = count ? value.elements() / count : 0;
    for (std::int64_t i = 0; i < value.elements(); ++i)
      value.as<float>()[i] = std::max(0.0F, std::sin(static_cast<float>(first * width + i)));
  }
  return rows;
}

std::vector<Codec> float_codecs() {
  std::vector<Codec> codecs;
  for (const Codec codec : codec::kCodecs)
    if (codec.number != Number::u8) codecs.push_back(codec);
  return codecs;
}

/// True if decoding gives what was computed, as exactly as the codec promises.
bool close(const std::vector<Tensor> &decoded, const Shard &computed, Codec codec) {
  for (std::size_t v = 0; v < decoded.size(); ++v) {
    const Tensor &want = computed.values[v], &have = decoded[v];
    if (have.dtype != want.dtype || have.shape != want.shape) return false;
    if (codec.exact() || want.dtype != DType::f32) {
      if (!same_bytes(have, want)) return false;
      continue;
    }
    for (std::int64_t i = 0; i < want.elements(); ++i) {
      const float value = want.as<float>()[i];
      // Magnitudes are at most 1, so a scale is at most 1 / 127.
      const float most = codec.number == Number::bf16 ? std::abs(value) / 256 : 0.501F / 127;
      if (!(std::abs(have.as<float>()[i] - value) <= most)) return false;
    }
  }
  return decoded.size() == computed.values.size();
}

} // namespace

TEST_CASE("rows in every codec come back through a file") {
  for (const Codec codec : float_codecs())
    for (const std::int64_t count : {0, 1, 5}) {
      const Shard computed = computed_rows(0, count);
      const ShardMeta meta = coded(computed.meta, codec);
      const Shard written = encode(meta, computed);
      check_rows(meta, written);
      const std::string bytes = shard_bytes(written);
      CHECK(same_rows(parse_stored_shard(block_of(bytes), "shard"), written));
      const Shard read = parse_shard(block_of(bytes), "shard");
      CHECK_FALSE(read.meta.zstd);
      CHECK(read.ids == computed.ids);
      CHECK(close(decode(read.meta, read), computed, codec));
      for (std::size_t v = 0; v < meta.values.size(); ++v)
        CHECK(decoded_dtype(read.meta, read.meta.values[v]) == computed.meta.values[v].dtype);
    }
}

TEST_CASE("pixels stay pixels, with zstd or without, and nothing else has their codec") {
  ShardMeta meta = values_meta();
  meta.codec = "u8";
  meta.values = {{"input", hash_text("input"), DType::u8, {3, 4, 4}}};
  const Shard rows = make_rows(meta, 0, 3);
  for (const bool zstd : {false, true}) {
    const Shard written = encode(coded(meta, {Number::u8, zstd}), rows);
    CHECK(same_bytes(decode(meta, unpack(written))[0], rows.values[0]));
  }
  CHECK_THROWS_AS(coded(meta, Codec::fp32), Error);
  CHECK_THROWS_AS(coded(values_meta(), Codec::u8), Error);
  CHECK_THROWS_AS(coded(files_meta(), {Number::fp32, true}), Error);
}

TEST_CASE("rows that were encoded together or alone are the same") {
  for (const Codec codec : float_codecs()) {
    const Shard computed = computed_rows(0, 6);
    const ShardMeta meta = coded(computed.meta, codec);
    const Shard all = encode(meta, computed);
    for (std::int64_t row = 0; row < 6; ++row) {
      const Shard one = encode(meta, slice(computed, row, row + 1));
      CHECK(same_rows(one, slice(all, row, row + 1)));
      CHECK(same_rows(one, gather(meta, {{&all, row}})));
    }
  }
}

TEST_CASE("the key covers the numbers and not the compression") {
  const ShardMeta computed = computed_meta();
  const auto key = [&](Codec codec) { return coded(computed, codec).key(); };
  CHECK(key({Number::fp32, true}) == computed.key());
  CHECK(key({Number::bf16, true}) == key({Number::bf16, false}));
  CHECK(key({Number::int8, true}) == key({Number::int8, false}));
  CHECK(key({Number::int8, false}) != key({Number::bf16, false}));
  CHECK(key({Number::bf16, false}) != computed.key());
}

TEST_CASE("a folder may be compressed in one run and not in the next, and pruned in between") {
  TempFolder folder;
  const ShardMeta computed = computed_meta();
  const Shard rows = computed_rows(0, 12);
  bool zstd = false;
  for (const std::int64_t until : {4, 8, 12}) {
    const ShardMeta meta = coded(computed, {Number::int8, zstd});
    zstd = !zstd;
    FolderSink sink(folder.path(), meta, small_shards(3));
    for (std::int64_t row = until == 12 ? 2 : 0; row < until; ++row) { // the last run drops two rows
      const auto i = static_cast<std::size_t>(row);
      if (sink.has(rows.records[i]))
        sink.keep({rows.records[i], rows.labels[i], rows.rows[i], rows.ids[i]});
      else
        sink.append(encode(meta, slice(rows, row, row + 1)));
    }
    CHECK(sink.finish(0).written == 4);
  }
  const auto check = [&] {
    FolderSource source(folder.path());
    CHECK_FALSE(source.meta().zstd);
    std::int64_t row = 2;
    for (const Shard &read : all_rows(source)) {
      CHECK(same_rows(read, encode(source.meta(), slice(rows, row, row + 1))));
      ++row;
    }
    CHECK(row == 12);
    source.rewind();
    const Shard picked = source.read({9, 0, 5});
    CHECK(picked.ids == std::vector<std::string>{rows.ids[11], rows.ids[2], rows.ids[7]});
    CHECK(same_bytes(picked.values[0],
                     gather(source.meta(), {{&picked, 0}, {&picked, 1}, {&picked, 2}}).values[0]));
  };
  check();
  CHECK(prune(folder.path()).rows == 2);
  check();
}

TEST_CASE("runs of rows of a compressed shard are handed out decompressed") {
  TempFolder folder;
  const Shard rows = computed_rows(0, 200);
  const ShardMeta meta = coded(rows.meta, {Number::bf16, true});
  FolderSink sink(folder.path(), meta, small_shards(1000));
  sink.append(encode(meta, rows));
  sink.finish(0);
  FolderSource source(folder.path());
  const std::optional<Shard> all = source.next();
  REQUIRE(all);
  CHECK(all->size() == 200);
  CHECK(close(decode(source.meta(), *all), rows, {Number::bf16, true}));
}

TEST_CASE("a stream carries every codec, and its reader sees no compression") {
  for (const Codec codec : float_codecs()) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    cli::Descriptor read_end(ends[0]), write_end(ends[1]);
    const Shard rows = computed_rows(0, 5);
    const ShardMeta meta = coded(rows.meta, codec);
    StreamSink sink(write_end.get(), "pipe", meta);
    for (std::int64_t row = 0; row < 5; ++row) sink.append(encode(meta, slice(rows, row, row + 1)));
    sink.finish(0);
    write_end = cli::Descriptor();
    StreamSource source(std::move(read_end), "pipe");
    CHECK_FALSE(source.meta().zstd);
    const std::optional<Shard> read = source.next();
    REQUIRE(read);
    CHECK(close(decode(source.meta(), *read), rows, codec));
    CHECK_FALSE(source.next());
  }
}

TEST_CASE("compressed rows leave before they would fill the receiver's memory") {
  TempFolder folder;
  ShardMeta meta = values_meta();
  meta.zstd = true;
  meta.values = {{"zeros", hash_text("zeros"), DType::f32, {8 << 20}}}; // 32 MiB that shrink to nothing
  Shard computed = make_rows(files_meta(), 0, 1);
  computed.file_offset.clear();
  computed.files = {};
  computed.meta = values_meta();
  computed.meta.values = meta.values;
  computed.values = {Tensor::empty(DType::f32, {1, 8 << 20})};
  std::memset(computed.values[0].data.get(), 0, computed.values[0].bytes());
  const Shard row = encode(meta, computed);
  CHECK(row.feature_bytes() < 10000);
  const std::string path = folder.path() + "/stream";
  const cli::Descriptor out(::open(path.c_str(), O_CREAT | O_WRONLY, 0666));
  StreamSink sink(out.get(), "stream", meta);
  for (int i = 0; i < 5; ++i) sink.append(row);
  CHECK(sink.finish(0).shards == 3);
}

TEST_CASE("a record that int8 cannot express is named") {
  Shard computed = computed_rows(0, 3);
  computed.values[1].as<float>()[2 * 120 + 7] = std::numeric_limits<float>::quiet_NaN();
  const std::string message = message_of([&] {
    encode(coded(computed.meta, {Number::int8, false}), computed);
  });
  CHECK(message.find("dog/2.png") != std::string::npos);
  CHECK(message.find("'v1'") != std::string::npos);
  encode(coded(computed.meta, {Number::bf16, false}), computed);
}

TEST_CASE("shards whose frames do not fit what they say are refused") {
  const Shard computed = computed_rows(0, 3);
  const ShardMeta meta = coded(computed.meta, {Number::int8, true});
  const Shard good = encode(meta, computed);
  const auto refused = [&](const Shard &bad) {
    // Sealed anew, so that the checksum is right.
    const std::string bytes = shard_bytes(bad);
    return message_of<FormatError>([&] { parse_shard(block_of(bytes), "bent"); }).find("bent: ") == 0;
  };
  CHECK_FALSE(refused(good));
  Shard bad = good;
  bad.meta.values[0].shape = {3, 5, 6}; // other than in the frames
  CHECK(refused(bad));
  bad = good;
  bad.meta.values[0].shape = {1 << 20, 1 << 20}; // a terabyte
  CHECK(refused(bad));
  bad.meta.values[0].shape = {1 << 30, 1 << 30, 4}; // whose bytes are a multiple of 2^64
  CHECK_THROWS_AS(meta_from_metadata(to_metadata(bad.meta), "bent"), FormatError);
  bad = good;
  bad.file_offset[1] += 3; // a frame's end goes to the one before
  CHECK(refused(bad));
  for (std::int64_t at = 0; at < good.files.shape[0]; at += 3) {
    bad = good;
    bad.files = Tensor::empty(DType::u8, good.files.shape);
    std::memcpy(bad.files.data.get(), good.files.data.get(), good.files.bytes());
    bad.files.data.get()[at] ^= std::byte{0x55};
    const std::string bytes = shard_bytes(bad);
    try {
      const Shard read = parse_shard(block_of(bytes), "bent"); // values may have changed, shapes must not
      check_rows(read.meta, read);
    } catch (const FormatError &) {
    }
  }
}

TEST_CASE("metadata of codecs are checked") {
  const ShardMeta meta = coded(computed_meta(), {Number::int8, true});
  const auto refusal = [&](const std::string &key, const std::string &text) {
    auto metadata = to_metadata(meta);
    metadata[key] = text;
    return message_of<FormatError>([&] { meta_from_metadata(metadata, "file"); });
  };
  CHECK(refusal("compression", "zstd").empty());
  CHECK(refusal("compression", "lz5").find("lz5") != std::string::npos);
  CHECK(refusal("codec", "int4").find("int4") != std::string::npos);
  CHECK(refusal("codec", "bf16").find("key") != std::string::npos);
  Shard rows = encode(coded(computed_meta(), {Number::int8, false}), computed_rows(0, 2));
  rows.scales[0] = Tensor::empty(DType::f32, {2, 1, 1, 1});
  CHECK_THROWS_AS(check_rows(rows.meta, rows), Error);
  rows.scales.clear();
  CHECK_THROWS_AS(check_rows(rows.meta, rows), Error);
}
