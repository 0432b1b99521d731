// Writes shards in every codec and a stream whose values a reader in another language can recompute:
//   tl-shard-sample FOLDER
#include "cli/io.h"
#include "shard/coding.h"
#include "shard/sink.h"
#include "shard/stream.h"

#include <fcntl.h>
#include <string>

using namespace tl;
using namespace tl::shard;

namespace {

constexpr std::int64_t kRows = 70;

ShardMeta sample_meta() {
  ShardMeta meta;
  meta.values = {{"layer3.5", hash_text("layer3.5"), DType::f32, {3, 5}},
                 {"label", hash_text("label"), DType::u8, {7}},
                 {"map", hash_text("map"), DType::f32, {2, 4, 4}}};
  meta.classes = {"cat", "dog", "caf\xc3\xa9", "\xff\\"};
  return meta;
}

/// Element e of row r: f32 r + e / 16, u8 (3 r + e) mod 256, map (r + 1) (e - 16) / 8.
Shard sample_rows(const ShardMeta &meta) {
  Shard rows;
  Tensor floats = Tensor::empty(DType::f32, {kRows, 3, 5});
  Tensor bytes = Tensor::empty(DType::u8, {kRows, 7});
  Tensor map = Tensor::empty(DType::f32, {kRows, 2, 4, 4});
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t e = 0; e < 15; ++e)
      floats.as<float>()[r * 15 + e] = static_cast<float>(r) + static_cast<float>(e) / 16;
    for (std::int64_t e = 0; e < 7; ++e)
      bytes.as<std::uint8_t>()[r * 7 + e] = static_cast<std::uint8_t>(3 * r + e);
    for (std::int64_t e = 0; e < 32; ++e)
      map.as<float>()[r * 32 + e] = static_cast<float>((r + 1) * (e - 16)) / 8;
    rows.labels.push_back(r % 5 - 1);
    rows.records.push_back(
        {static_cast<std::uint64_t>(r) << 32, static_cast<std::uint64_t>(r) * 0x0102030405060708});
    rows.rows.push_back(2 * r);
    rows.ids.push_back("d/" + std::string(static_cast<std::size_t>(r % 3), '\xfe') + std::to_string(r));
  }
  rows.meta = meta;
  rows.values = {floats, bytes, map};
  return rows;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const ShardMeta meta = sample_meta();
  const Shard rows = sample_rows(meta);
  for (const codec::Codec codec : codec::kCodecs) {
    if (codec.number == codec::Number::u8) continue;
    const ShardMeta written = coded(meta, codec);
    const auto file = create_sink(folder + "/" + name_of(codec) + ".safetensors", written);
    file->append(encode(written, rows));
    file->finish(2);
  }
  const cli::Descriptor out(::open((folder + "/sample.stream").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0666));
  StreamSink stream(out.get(), "sample.stream", meta, kRows);
  for (std::int64_t r = 0; r < kRows; r += 10) stream.append(slice(rows, r, r + 10));
  stream.finish(2);
  return 0;
}
