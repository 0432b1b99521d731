#include "shard/shard.h"

#include "support/files.h"
#include "support/shards.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace {

Shard parse(const std::string &bytes) { return parse_shard(block_of(bytes), "x"); }

ShardMeta rows_meta() {
  ShardMeta meta = values_meta();
  meta.payload = Payload::rows;
  meta.values = {{"raw", Digest{}, DType::u8, {28, 28}}};
  return meta;
}

} // namespace

TEST_CASE("shard: every payload and size comes back as it was") {
  for (const ShardMeta &meta : {values_meta(), rows_meta(), files_meta()})
    for (const std::int64_t rows : {0, 1, 2, 7, 64}) {
      Shard shard = make_rows(meta, 3, rows);
      shard.number = 12;
      shard.skipped = 4;
      const Shard back = parse(shard_bytes(shard));
      CHECK(same_rows(shard, back));
      CHECK(back.number == 12);
      CHECK(back.skipped == 4);
      CHECK(back.meta.key() == meta.key());
      CHECK(back.feature_bytes() == shard.feature_bytes());
      for (std::int64_t i = 0; i < rows && meta.payload == Payload::files; ++i)
        CHECK(back.file(i) == record_file(3 + i));
    }
}

TEST_CASE("shard: payloads around multiples of the block size") {
  ShardMeta meta = values_meta();
  for (const std::int64_t size : {63, 64, 65, 4095, 4096, 4097, 65536}) {
    meta.values = {{"v", hash_text("v"), DType::u8, {size}}};
    const Shard shard = make_rows(meta, 0, 1);
    CHECK(same_rows(parse(shard_bytes(shard)), shard));
  }
}

TEST_CASE("shard: the same rows give the same bytes") {
  CHECK(shard_bytes(make_rows(values_meta(), 0, 9)) == shard_bytes(make_rows(values_meta(), 0, 9)));
}

TEST_CASE("shard: values may have the names of a shard's own tensors") {
  ShardMeta meta = values_meta();
  meta.values.clear();
  for (const char *name : {"label", "record", "row", "id", "id_offset", "file", "value.label",
                           "value.value.label", "__metadata__", "checksum", "caf\xc3\xa9"})
    meta.values.push_back({name, hash_text(name), DType::f32, {2}});
  const Shard shard = make_rows(meta, 0, 5);
  CHECK(same_rows(parse(shard_bytes(shard)), shard));
}

TEST_CASE("shard: every flipped bit and every lost or added byte is noticed") {
  for (const ShardMeta &meta : {values_meta(), files_meta()}) {
    const std::string good = shard_bytes(make_rows(meta, 0, 3));
    std::size_t silent = 0;
    const auto refused = [&](const std::string &bytes) {
      return !message_of<FormatError>([&] { parse(bytes); }).empty();
    };
    for (std::size_t i = 0; i < good.size(); ++i)
      for (const int mask : {0x01, 0x20, 0x80, 0xFF}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ mask);
        silent += !refused(bad);
      }
    for (std::size_t size = 0; size < good.size(); ++size) silent += !refused(good.substr(0, size));
    silent += !refused(good + '\0');
    silent += !refused(good + good);
    CHECK(silent == 0);
  }
}

TEST_CASE("shard: what is no shard of ours is told from damage") {
  const std::string good = shard_bytes(make_rows(values_meta(), 0, 3));
  const auto replaced = [&](const std::string &what, const std::string &with) {
    std::string bytes = good;
    bytes.replace(bytes.find(what), what.size(), with);
    return bytes;
  };
  const std::string newer =
      message_of<NewerVersion>([&] { parse(replaced(R"("version":"1")", R"("version":"9")")); });
  CHECK(newer.find("newer tl-tools (version 9") != std::string::npos);
  CHECK(newer.find("upgrade") != std::string::npos);
  CHECK_THROWS_AS(parse(replaced(R"("version":"1")", R"("version":"0")")), FormatError);
  CHECK_THROWS_AS(parse(replaced("tl-shard", "tl-shars")), ForeignFile);
  std::string foreign;
  write_safetensors({{{"a", Tensor::empty(DType::u8, {1})}}, {}}, string_sink(foreign));
  CHECK(message_of<ForeignFile>([&] { parse(foreign); }).find("not a tl-shard file") != std::string::npos);
  std::string damaged = good;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  CHECK(message_of<FormatError>([&] { parse(damaged); }).find("checksum") != std::string::npos);
  CHECK(message_of<ForeignFile>([&] {
          try {
            parse(damaged);
          } catch (const ForeignFile &) {
            throw;
          } catch (const FormatError &) {
          }
        }).empty());
}

TEST_CASE("shard: the key follows what changes a feature, and nothing else") {
  const ShardMeta base = values_meta();
  const auto key_of = [&](auto change) {
    ShardMeta meta = values_meta();
    change(meta);
    CHECK(difference(meta, base).empty() == (meta.key() == base.key()));
    return meta.key();
  };
  CHECK(key_of([](ShardMeta &m) { m.plan = hash_text("other plan"); }) == base.key());
  CHECK(key_of([](ShardMeta &m) { m.classes = {"x"}; }) == base.key());
  CHECK(key_of([](ShardMeta &m) { m.preprocess = "{}"; }) == base.key());
  CHECK(key_of([](ShardMeta &m) { m.codec = "u8"; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.preprocess_digest = Digest{1, 2}; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.values[0].hash = Digest{1, 2}; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.values[0].name = "layer4"; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.values[0].dtype = DType::bf16; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.values[0].shape = {3, 2}; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.values[0].shape = {6}; }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m.values.pop_back(); }) != base.key());
  CHECK(key_of([](ShardMeta &m) { std::swap(m.values[0], m.values[1]); }) != base.key());
  CHECK(key_of([](ShardMeta &m) { m = files_meta(); }) != base.key());
}

TEST_CASE("shard: rows that contradict their meta are never written") {
  const auto refused = [](auto change) {
    Shard shard = make_rows(values_meta(), 0, 4);
    change(shard);
    std::string out;
    const bool threw = !message_of([&] { write_shard(shard, string_sink(out)); }).empty();
    return threw && out.empty();
  };
  CHECK_FALSE(refused([](Shard &) {}));
  CHECK(refused([](Shard &s) { s.labels.pop_back(); }));
  CHECK(refused([](Shard &s) { s.ids.emplace_back("more"); }));
  CHECK(refused([](Shard &s) { s.rows.pop_back(); }));
  CHECK(refused([](Shard &s) { s.rows[2] = -1; }));
  CHECK(refused([](Shard &s) { s.labels[1] = 3; }));
  CHECK(refused([](Shard &s) { s.labels[1] = -2; }));
  CHECK(refused([](Shard &s) { s.values.pop_back(); }));
  CHECK(refused([](Shard &s) { s.values[0].shape = {4, 6}; }));
  CHECK(refused([](Shard &s) { s.values[0].dtype = DType::i32; }));
  CHECK(refused([](Shard &s) { std::swap(s.values[0], s.values[1]); }));
  CHECK(refused([](Shard &s) { s.meta.values[1].name = s.meta.values[0].name; }));
  CHECK(refused([](Shard &s) { s.meta.values[1].name = ""; }));
  CHECK(refused([](Shard &s) { s.meta.values[1].name = "\xff"; }));
  CHECK(refused([](Shard &s) { s.meta.classes[1] = s.meta.classes[0]; }));
  CHECK(refused([](Shard &s) { s.meta.payload = Payload::files; }));
  Shard files = make_rows(files_meta(), 0, 4);
  std::swap(files.file_offset[1], files.file_offset[3]);
  std::string out;
  CHECK_THROWS_AS(write_shard(files, string_sink(out)), Error);
}

TEST_CASE("shard: slices share memory, gathered rows are copies in the order asked for") {
  for (const ShardMeta &meta : {values_meta(), files_meta()}) {
    const Shard whole = make_rows(meta, 0, 10);
    for (std::int64_t begin = 0; begin <= 10; ++begin)
      for (std::int64_t end = begin; end <= 10; ++end)
        CHECK(same_rows(slice(whole, begin, end), make_rows(meta, begin, end - begin)));
    CHECK_THROWS_AS(slice(whole, 3, 11), Error);
    if (meta.payload == Payload::values)
      CHECK(slice(whole, 2, 4).values[0].data.get() == whole.values[0].data.get() + 2 * 24);

    const Shard other = make_rows(meta, 10, 3);
    const Shard picked = gather(meta, {{&other, 2}, {&whole, 0}, {&whole, 7}, {&whole, 7}});
    REQUIRE(picked.size() == 4);
    const std::int64_t numbers[] = {12, 0, 7, 7};
    for (std::int64_t i = 0; i < 4; ++i)
      CHECK(same_rows(slice(picked, i, i + 1), make_rows(meta, numbers[i], 1)));
    CHECK(gather(meta, {}).size() == 0);
  }
}
