// Where records come from: folders, streams that are kept, stored files, datasets.
#include "support/photos.h"
#include "support/training.h"
#include "train/sources.h"

#include "cli/error.h"
#include "shard/coding.h"
#include "shard/folder.h"
#include "shard/stream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fcntl.h>
#include <set>

using namespace tl;
using test::Points;
using test::TempFolder;
using train::Chunk;
using train::RecordSource;

namespace {

shard::ShardMeta points_meta(const std::string &name = "fc1") {
  shard::ShardMeta meta;
  meta.values = {{name, hash_text(name), DType::f32, {4}}};
  meta.classes = {"a", "b", "c"};
  return meta;
}

/// The points as rows of a shard.
shard::Shard points_shard(const Chunk &chunk) {
  shard::Shard rows;
  rows.meta = points_meta();
  rows.values = chunk.values;
  for (std::size_t i = 0; i < chunk.records.size(); ++i) {
    rows.labels.push_back(chunk.records[i].label);
    rows.records.push_back(chunk.records[i].hash);
    rows.rows.push_back(static_cast<std::int64_t>(i));
    rows.ids.push_back(chunk.records[i].id);
  }
  return rows;
}

/// All that is left, `limit` records at a time.
Chunk take(RecordSource &source, std::int64_t limit) {
  Chunk all;
  std::vector<at::Tensor> values;
  while (std::optional<Chunk> chunk = source.next(limit)) {
    CHECK(static_cast<std::int64_t>(chunk->records.size()) <= limit);
    CHECK(!chunk->records.empty());
    all.records.insert(all.records.end(), chunk->records.begin(), chunk->records.end());
    values.push_back(model::to_torch(chunk->values.at(0)).clone());
  }
  if (!values.empty()) all.values.push_back(model::from_torch(at::cat(values)));
  return all;
}

bool same(const Chunk &a, const Chunk &b) {
  bool equal = a.records.size() == b.records.size() && a.values.size() == b.values.size();
  for (std::size_t i = 0; equal && i < a.records.size(); ++i)
    equal = a.records[i].hash == b.records[i].hash && a.records[i].label == b.records[i].label &&
            a.records[i].id == b.records[i].id;
  return equal && at::equal(model::to_torch(a.values[0]), model::to_torch(b.values[0]));
}

Chunk at_places(const Chunk &all, const std::vector<std::int64_t> &places) {
  Chunk chosen;
  for (const std::int64_t place : places)
    chosen.records.push_back(all.records[static_cast<std::size_t>(place)]);
  chosen.values.push_back(test::rows_of(all.values[0], places));
  return chosen;
}

/// Writes a stream to a file and opens it, as from a pipe.
std::unique_ptr<shard::ShardSource> stream_of(const TempFolder &folder, const shard::Shard &rows,
                                              std::int64_t piece, std::int64_t rows_sent = -1) {
  const std::string path = folder.path("stream");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(fd >= 0);
  const cli::Descriptor file(fd);
  shard::StreamSink sink(fd, "stream", rows.meta);
  const std::int64_t end = rows_sent < 0 ? rows.size() : rows_sent;
  for (std::int64_t i = 0; i < end; i += piece) sink.append(shard::slice(rows, i, std::min(i + piece, end)));
  if (rows_sent < 0) sink.finish(2);
  return shard::open_shards(path);
}

std::vector<std::int64_t> other_order(std::int64_t count) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; i += 2) places.push_back((i * 7) % count);
  return places;
}

void check_passes(RecordSource &source, const Chunk &expected) {
  CHECK(same(take(source, 6), expected));
  const std::vector<std::int64_t> order = other_order(static_cast<std::int64_t>(expected.records.size()));
  for (const std::int64_t limit : {1, 4, 1000}) {
    source.start(order);
    CHECK(same(take(source, limit), at_places(expected, order)));
  }
}

} // namespace

TEST_CASE("features in any codec arrive, and come back, as the numbers that they stand for") {
  const Chunk points = Points{31}.all();
  const shard::Shard rows = points_shard(points);
  const TempFolder folder;
  for (const codec::Codec codec : codec::kCodecs) {
    if (codec.number == codec::Number::u8) continue;
    const shard::ShardMeta meta = shard::coded(rows.meta, codec);
    const shard::Shard coded = shard::encode(meta, rows);
    Chunk expected = points;
    expected.values = shard::decode(meta, shard::unpack(coded));
    CHECK(same(expected, points) == codec.exact());
    train::SourceOptions options;
    options.keep = folder.path("kept-" + name_of(codec));
    const auto stream = train::shard_source(stream_of(folder, coded, 4), {}, options);
    CHECK(stream->cheap() == codec.exact());
    check_passes(*stream, expected);
    const std::string name = folder.path("folder-" + name_of(codec));
    const auto sink = shard::create_sink(name, meta);
    sink->append(coded);
    sink->finish(0);
    const auto stored = train::shard_source(shard::open_shards(name), {}, options);
    check_passes(*stored, expected);
  }
}

TEST_CASE("a folder, a file and a stream give the same records, in every pass") {
  const Chunk points = Points{31}.all();
  const shard::Shard rows = points_shard(points);
  const TempFolder folder;
  for (const std::string name : {"folder", "one.safetensors"}) {
    shard::SinkOptions small;
    small.rows_per_shard = 5;
    const auto sink = shard::create_sink(folder.path(name), rows.meta, small);
    for (std::int64_t i = 0; i < 31; i += 4)
      sink->append(shard::slice(rows, i, std::min<std::int64_t>(i + 4, 31)));
    sink->finish(0);
    train::SourceOptions options;
    options.keep = folder.path("kept-" + name);
    const auto source = train::shard_source(shard::open_shards(folder.path(name)), {}, options);
    CHECK(source->classes() == rows.meta.classes);
    CHECK(source->cheap());
    check_passes(*source, points);
    // A folder is read in place.
    CHECK(std::filesystem::exists(options.keep) == (name != "folder"));
  }
  for (const std::int64_t piece : {1, 3, 31}) {
    train::SourceOptions options;
    options.keep = folder.path("kept-" + std::to_string(piece));
    const auto source = train::shard_source(stream_of(folder, rows, piece), {}, options);
    check_passes(*source, points);
    CHECK(source->skipped_before() == 2);
    const auto again = train::shard_source(shard::open_shards(options.keep), {}, {});
    check_passes(*again, points);
  }
}

TEST_CASE("what an interrupted stream has left is not written twice") {
  const Chunk points = Points{40}.all();
  const shard::Shard rows = points_shard(points);
  const TempFolder folder;
  train::SourceOptions options;
  options.keep = folder.path("kept");
  {
    const auto source = train::shard_source(stream_of(folder, rows, 5, 25), {}, options);
    CHECK_THROWS_AS(take(*source, 5), FormatError); // cut off
  }
  CHECK_THROWS_AS(shard::open_shards(options.keep), Error); // not taken for the whole
  const auto source = train::shard_source(stream_of(folder, rows, 5), {}, options);
  check_passes(*source, points);
}

TEST_CASE("records of equal content keep their places, labels and ids") {
  Chunk points = Points{12}.all();
  for (const std::size_t twin : {3, 4, 11}) {
    points.records[twin].hash = points.records[2].hash;
    points.values[0] = model::from_torch(model::to_torch(points.values[0]).clone());
    for (int j = 0; j < 4; ++j)
      points.values[0].as<float>()[twin * 4 + j] = points.values[0].as<float>()[2 * 4 + j];
  }
  const TempFolder folder;
  for (const std::int64_t piece : {1, 12}) {
    train::SourceOptions options;
    options.keep = folder.path("kept" + std::to_string(piece));
    const auto source = train::shard_source(stream_of(folder, points_shard(points), piece), {}, options);
    check_passes(*source, points);
  }
}

namespace {

data::Preprocess small() { return data::parse_preprocess("resize=8x8,mean=0.5/0.4/0.6,std=0.2/0.3/0.25"); }

/// A shard of the stored files of a dataset, as a plan with the cut "files" ships them.
shard::Shard stored(const data::Dataset &dataset) {
  shard::Shard rows;
  rows.meta.payload = shard::Payload::files;
  rows.meta.classes = dataset.classes();
  rows.file_offset.push_back(0);
  std::string bytes;
  for (std::size_t i = 0; i < dataset.records().size(); ++i) {
    const data::Encoded record = dataset.read(i);
    bytes.append(reinterpret_cast<const char *>(record.content.data.get()), record.content.bytes());
    rows.file_offset.push_back(static_cast<std::int64_t>(bytes.size()));
    rows.labels.push_back(dataset.records()[i].label);
    rows.records.push_back(record.hash);
    rows.rows.push_back(static_cast<std::int64_t>(i));
    rows.ids.push_back(dataset.records()[i].id);
  }
  rows.files = Tensor::empty(DType::u8, {static_cast<std::int64_t>(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), rows.files.as<char>());
  return rows;
}

Chunk by_id(Chunk chunk) {
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < chunk.records.size(); ++i) places.push_back(static_cast<std::int64_t>(i));
  std::sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) {
    return chunk.records[static_cast<std::size_t>(a)].id < chunk.records[static_cast<std::size_t>(b)].id;
  });
  return at_places(chunk, places);
}

} // namespace

TEST_CASE("stored files are decoded here as a dataset is") {
  const test::Photos photos;
  for (unsigned i = 0; i < 9; ++i) photos.add((i % 2 ? "cat/" : "dog/") + std::to_string(i) + ".ppm", i);
  const TempFolder folder;
  const auto direct = train::dataset_source(data::Dataset::open(photos.root()), small(), 3, {});
  const Chunk expected = take(*direct, 4);
  CHECK(expected.records.size() == 9);
  direct->start(other_order(9));
  CHECK(same(take(*direct, 2), at_places(expected, other_order(9))));
  for (const std::size_t threads : {1, 3}) {
    train::SourceOptions options;
    options.threads = threads;
    options.keep = folder.path("kept" + std::to_string(threads));
    const auto source = train::shard_source(stream_of(folder, stored(data::Dataset::open(photos.root())), 4),
                                            small(), options);
    CHECK(!source->cheap());
    const Chunk found = take(*source, 3);
    CHECK(same(by_id(found), by_id(expected)));
    source->start(other_order(9));
    CHECK(same(take(*source, 2), at_places(found, other_order(9))));
  }
}

TEST_CASE("damaged records end the work, or are left out and named") {
  const test::Photos photos;
  for (unsigned i = 0; i < 6; ++i) photos.add("cat/" + std::to_string(i) + ".ppm", i);
  photos.add("dog/7.ppm", 7);
  photos.add_damaged("cat/3x.ppm");
  const TempFolder folder;
  for (const bool files : {false, true})
    for (const bool keep_going : {false, true}) {
      train::SourceOptions options;
      options.keep_going = keep_going;
      options.keep = folder.path("kept" + std::to_string(files) + std::to_string(keep_going));
      const auto source =
          files ? train::shard_source(stream_of(folder, stored(data::Dataset::open(photos.root())), 8),
                                      small(), options)
                : train::dataset_source(data::Dataset::open(photos.root()), small(), 3, options);
      if (!keep_going) {
        try {
          take(*source, 3);
          FAIL("accepted");
        } catch (const Error &error) {
          CHECK(std::string(error.what()).find("cat/3x.ppm") != std::string::npos);
        }
        continue;
      }
      const Chunk good = take(*source, 3);
      CHECK(good.records.size() == 7);
      REQUIRE(source->skipped().size() == 1);
      CHECK(source->skipped()[0].rfind("cat/3x.ppm: ", 0) == 0);
      source->start(other_order(7)); // positions count the good ones
      CHECK(same(take(*source, 3), at_places(good, other_order(7))));
    }
}

TEST_CASE("pictures of several sizes need one size to become") {
  const test::Photos photos;
  for (unsigned i = 0; i < 3; ++i) photos.add("cat/" + std::to_string(i) + ".ppm", i);
  TempFolder folder;
  folder.write("cat/4.ppm", test::noise_ppm(7, 9, 3));
  for (unsigned i = 0; i < 3; ++i)
    folder.write("cat/" + std::to_string(i) + ".ppm", test::noise_ppm(10, 8, i));
  train::SourceOptions options;
  const TempFolder out;
  options.keep = out.path("kept");
  const auto source = train::shard_source(stream_of(out, stored(data::Dataset::open(folder.path())), 8),
                                          data::parse_preprocess("raw"), options);
  CHECK_THROWS_AS(take(*source, 10), Error);
}

TEST_CASE("folders are joined by record, whatever the order and the gaps of each") {
  const TempFolder folder;
  const Chunk all = Points{31}.all();
  Chunk other = Points{31, 3, 4, 0.7, 9}.all();
  other.records = all.records;
  const auto write = [&](const std::string &name, const Chunk &chunk,
                         const std::vector<std::int64_t> &places) {
    shard::ShardMeta meta = points_meta(name);
    shard::SinkOptions small;
    small.rows_per_shard = 7;
    shard::FolderSink sink(folder.path(name), meta, small);
    shard::Shard rows = points_shard(at_places(chunk, places));
    sink.append(rows);
    sink.finish(0);
  };
  std::vector<std::int64_t> forwards, mixed;
  for (std::int64_t i = 0; i < 31; ++i) {
    forwards.push_back(i);
    if (i != 4 && i != 20) mixed.push_back(i * 12 % 31);
  }
  write("fc1", all, forwards);
  write("fc2", other, mixed);
  std::vector<std::int64_t> places = forwards; // those that both have, in the first one's order
  for (std::int64_t i = 0; i < 31; ++i)
    if (std::find(mixed.begin(), mixed.end(), i) == mixed.end())
      places.erase(std::find(places.begin(), places.end(), i));
  REQUIRE(places.size() == 29);
  const auto source = train::joined_source(
      train::shard_source(shard::open_shards(folder.path("fc1")), {}, {}), {folder.path("fc2")}, {});
  CHECK(source->cheap());
  const auto both = [&](const std::vector<std::int64_t> &wanted, std::int64_t limit) {
    std::size_t next = 0;
    while (const std::optional<Chunk> chunk = source->next(limit)) {
      REQUIRE(chunk->values.size() == 2);
      for (std::size_t row = 0; row < chunk->records.size(); ++row, ++next) {
        REQUIRE(next < wanted.size());
        const auto place = static_cast<std::int64_t>(wanted[next]);
        CHECK(chunk->records[row].hash == all.records[static_cast<std::size_t>(place)].hash);
        for (std::size_t v = 0; v < 2; ++v)
          CHECK(at::equal(model::to_torch(chunk->values[v])[static_cast<std::int64_t>(row)],
                          model::to_torch((v == 0 ? all : other).values[0])[place]));
      }
    }
    CHECK(next == wanted.size());
  };
  both(places, 5);
  std::vector<std::int64_t> positions, wanted;
  for (std::int64_t i = 0; i < 29; ++i) positions.push_back(i * 5 % 29);
  for (const std::int64_t position : positions) wanted.push_back(places[static_cast<std::size_t>(position)]);
  for (int pass = 0; pass < 2; ++pass) {
    source->start(positions);
    both(wanted, 4);
  }
  shard::ShardMeta meta = points_meta("fc3");
  meta.classes = {"a", "b", "other"};
  shard::FolderSink(folder.path("fc3"), meta).finish(0);
  CHECK_THROWS_AS(train::joined_source(train::shard_source(shard::open_shards(folder.path("fc1")), {}, {}),
                                       {folder.path("fc3")}, {}),
                  FormatError);
}
