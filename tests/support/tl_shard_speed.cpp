// Times the shards of a folder for scripts/bench/shards:
//   tl-shard-speed write FOLDER ROWS WIDTH    rows of WIDTH f32, made before the clock starts
//   tl-shard-speed read FOLDER                in the order of the index
//   tl-shard-speed shuffled FOLDER BATCH      in a random order, so many rows at a time
// Prints seconds.
#include "runtime/allocation.h"
#include "runtime/clock.h"
#include "shard/folder.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace tl;
using namespace tl::shard;

namespace {

constexpr std::int64_t kBatch = 64; // rows that an extraction appends at a time

Shard make_rows(std::int64_t rows, std::int64_t width) {
  Shard shard;
  shard.values = {Tensor::empty(DType::f32, {rows, width})};
  std::mt19937 random(0);
  float *numbers = shard.values[0].as<float>();
  std::generate_n(numbers, rows * width, [&] { return static_cast<float>(random()) / 4e9F; });
  for (std::int64_t row = 0; row < rows; ++row) {
    shard.labels.push_back(row % 2);
    shard.records.push_back(hash_bytes(&row, sizeof row));
    shard.rows.push_back(row);
    shard.ids.push_back(std::to_string(row));
  }
  return shard;
}

double write(const std::string &folder, std::int64_t rows, std::int64_t width) {
  ShardMeta meta;
  meta.values = {{"features", hash_text("features"), DType::f32, {width}}};
  meta.classes = {"a", "b"};
  const Shard all = make_rows(rows, width);
  const Stopwatch watch;
  FolderSink sink(folder, meta);
  for (std::int64_t row = 0; row < rows; row += kBatch)
    sink.append(slice(meta, all, row, std::min(row + kBatch, rows)));
  sink.finish(0);
  return watch.seconds();
}

double read(const std::string &folder) {
  const Stopwatch watch;
  FolderSource source(folder);
  while (source.next()) {
  }
  return watch.seconds();
}

double read_shuffled(const std::string &folder, std::int64_t batch) {
  const Stopwatch watch;
  FolderSource source(folder);
  std::vector<std::int64_t> order(source.entries().size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(0));
  for (std::size_t at = 0; at < order.size(); at += static_cast<std::size_t>(batch)) {
    const std::size_t end = std::min(at + static_cast<std::size_t>(batch), order.size());
    source.read(
        {order.begin() + static_cast<std::ptrdiff_t>(at), order.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  return watch.seconds();
}

} // namespace

int main(int argc, char **argv) {
  keep_freed_memory(); // as the programs do
  const std::vector<std::string> words(argv + 1, argv + argc);
  double seconds = 0;
  if (words.size() == 4 && words[0] == "write")
    seconds = write(words[1], std::stoll(words[2]), std::stoll(words[3]));
  else if (words.size() == 2 && words[0] == "read")
    seconds = read(words[1]);
  else if (words.size() == 3 && words[0] == "shuffled")
    seconds = read_shuffled(words[1], std::stoll(words[2]));
  else
    return 2;
  std::printf("%.6f\n", seconds);
  return 0;
}
