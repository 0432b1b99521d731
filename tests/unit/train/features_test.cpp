// Records become rows: the same ones whatever the chunks, with and without memory for them.
#include "support/training.h"

#include "cli/error.h"
#include "runtime/clock.h"
#include "train/cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>

using namespace tl;
using test::MemorySource;
using test::Points;
using train::Features;
using train::Rows;

namespace {

constexpr std::int64_t kRow = 6 * 4; // bytes of the six numbers after the first layer

/// Points through the frozen first layer.
struct Frozen {
  train::Network network = test::point_network(false, "fc\\..*");
  train::Chunk chunk = Points{37}.all();
  std::shared_ptr<int> passes;

  Features features(std::int64_t cache, std::int64_t size, bool cheap = false) {
    auto source = std::make_unique<MemorySource>(chunk, 3);
    source->is_cheap = cheap;
    passes = source->passes;
    return Features(std::move(source), network.frozen, 3, {cache, size});
  }
  at::Tensor expected() const { return network.frozen->run({model::to_torch(chunk.values[0])})[0]; }
};

at::Tensor all_values(Features::Pass &pass, std::vector<std::int64_t> *positions = nullptr) {
  std::vector<at::Tensor> parts;
  while (const std::optional<Rows> rows = pass.next()) {
    CHECK(rows->values.size() == 1);
    CHECK(rows->values[0].size(0) == rows->size());
    parts.push_back(rows->values[0].clone());
    if (positions) positions->insert(positions->end(), rows->positions.begin(), rows->positions.end());
  }
  return at::cat(parts);
}

} // namespace

TEST_CASE("rows are the same for every chunk and every amount of memory") {
  Frozen frozen;
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 37; ++i) order.push_back((i * 11) % 37);
  const at::Tensor index = at::tensor(order, at::kLong);
  for (const std::int64_t chunk : {0, 1, 5, 100})
    for (const std::int64_t cached : {0, 1, 20, 36, 37, 1000}) {
      CAPTURE(chunk);
      CAPTURE(cached);
      Features features = frozen.features(cached * kRow, chunk);
      CHECK(!features.complete());
      std::vector<std::int64_t> positions;
      CHECK(at::allclose(all_values(*features.arrive(), &positions), frozen.expected()));
      CHECK(features.complete());
      CHECK(features.counters().cached == std::min<std::int64_t>(cached, 37));
      for (std::int64_t i = 0; i < 37; ++i) CHECK(positions[static_cast<std::size_t>(i)] == i);
      for (int repeat = 0; repeat < 2; ++repeat) {
        positions.clear();
        CHECK(at::allclose(all_values(*features.pass(order), &positions),
                           frozen.expected().index_select(0, index)));
        CHECK(positions == order);
      }
      // What is in memory is computed once.
      CHECK(features.counters().computed == 37 + 2 * std::max<std::int64_t>(0, 37 - cached));
      CHECK(*frozen.passes == (cached >= 37 ? 0 : 2));
    }
}

TEST_CASE("rows know their records") {
  Frozen frozen;
  Features features = frozen.features(1000, 8);
  features.drain();
  const auto pass = features.pass({36, 0, 5});
  const std::optional<Rows> rows = pass->next();
  REQUIRE(rows);
  CHECK(rows->records[0]->id == "point/36");
  CHECK(rows->records[2]->id == "point/5");
  CHECK(rows->labels[1].item<std::int64_t>() == frozen.chunk.records[0].label);
  CHECK(!pass->next());
  CHECK(!features.pass({})->next());
}

TEST_CASE("what is cheap to read and needs no computing is not kept") {
  Frozen frozen;
  auto source = std::make_unique<MemorySource>(frozen.chunk, 3);
  source->is_cheap = true;
  Features features(std::move(source), nullptr, 3, {1 << 20, 0});
  features.drain();
  CHECK(features.counters().cached == 0);
  CHECK(
      at::equal(all_values(*features.pass({1, 2})), model::to_torch(frozen.chunk.values[0]).narrow(0, 1, 2)));
}

TEST_CASE("records without a label, or with one of no class, are named") {
  for (const std::int64_t label : {-1, 3, 1000}) {
    Frozen frozen;
    frozen.chunk.records[20].label = label;
    Features features = frozen.features(0, 8);
    try {
      features.drain();
      FAIL("accepted");
    } catch (const Error &error) {
      CHECK(std::string(error.what()).find("point/20") != std::string::npos);
    }
  }
}

TEST_CASE("an error of the reader reaches the trainer after the rows before it") {
  Frozen frozen;
  auto source = std::make_unique<MemorySource>(frozen.chunk, 3);
  source->before_next = [](std::size_t delivered) {
    if (delivered >= 16) throw FormatError("the stream was cut off");
  };
  Features features(std::move(source), frozen.network.frozen, 3, {0, 8});
  const auto pass = features.arrive();
  CHECK(pass->next());
  CHECK_THROWS_AS(
      [&] {
        while (pass->next()) {
        }
      }(),
      FormatError);
  CHECK(!features.complete());
}

TEST_CASE("a pass that is given up ends its reader, even one that waits") {
  Frozen frozen;
  auto source = std::make_unique<MemorySource>(frozen.chunk, 3);
  source->before_next = [](std::size_t delivered) {
    if (delivered < 8) return;
    for (;;) { // as a read from a silent pipe does
      check_interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  const Stopwatch watch;
  {
    Features features(std::move(source), frozen.network.frozen, 3, {0, 8});
    const auto pass = features.arrive();
    CHECK(pass->next());
  }
  CHECK(watch.seconds() < 5);
}

TEST_CASE("the cache takes rows of several values until its budget is used") {
  const auto value = [](std::vector<std::int64_t> shape, int from) {
    return (torch::arange(from, from + shape[0] * shape[1], at::kInt)).reshape(shape);
  };
  train::RowCache cache(3 * (4 + 8) + 5);
  CHECK(cache.open());
  cache.append({value({2, 1}, 0), value({2, 2}, 10)});
  CHECK(cache.size() == 2);
  cache.append({value({2, 1}, 5), value({2, 2}, 50)});
  CHECK(cache.size() == 3);
  CHECK(!cache.open());
  cache.append({value({1, 1}, 7), value({1, 2}, 70)});
  CHECK(cache.size() == 3);
  std::vector<at::Tensor> rows = cache.like(2);
  cache.copy(2, rows, 0);
  cache.copy(0, rows, 1);
  CHECK(at::equal(rows[0], at::tensor(std::vector<int>{5, 0}, at::kInt).reshape({2, 1})));
  CHECK(at::equal(rows[1], at::tensor(std::vector<int>{50, 51, 10, 11}, at::kInt).reshape({2, 2})));
}
