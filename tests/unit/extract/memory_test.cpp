// Batches that follow a share of memory: as large as asked, the same features, and a demand that grows with
// what it should.
#include "extract/memory.h"
#include "model/tensors.h"
#include "support/extraction.h"

#include <doctest/doctest.h>

using namespace tl;
using test::MemorySink;

namespace {

struct Fixture {
  test::TempFolder folder;
  test::Photos photos;
  model::Model model = test::load_small(test::save(test::conv_net(), folder.path("model.pt")));

  Fixture() {
    for (int i = 0; i < 20; ++i)
      photos.add((i % 2 ? "dog/" : "cat/") + std::to_string(i) + ".ppm", static_cast<unsigned>(i));
  }

  MemorySink run(const extract::Prefix &prefix, const extract::ExtractOptions &options) const {
    const data::Dataset dataset = data::Dataset::open(photos.root());
    MemorySink sink;
    sink.meta = prefix.meta();
    sink.meta.classes = dataset.classes();
    extract::extract(dataset, prefix, sink, options);
    return sink;
  }

  extract::MemoryModel measure(const extract::Prefix &prefix, const extract::MemoryOptions &options) const {
    return extract::measure_memory(data::Dataset::open(photos.root()), prefix, options);
  }
};

extract::MemoryOptions memory(std::int64_t least, std::int64_t wanted) {
  extract::MemoryOptions options;
  options.least = least;
  options.wanted = wanted;
  options.available = std::int64_t{1} << 40;
  options.output = "-";
  return options;
}

} // namespace

TEST_CASE_FIXTURE(Fixture, "batches change as they are asked to, and no feature does") {
  const extract::Prefix prefix = test::prefix_at(model, "block");
  extract::ExtractOptions options;
  options.batch = 32;
  options.threads = 2;
  const MemorySink whole = run(prefix, options);
  std::vector<std::int64_t> asked;
  options.adapt = [&asked] {
    asked.push_back(static_cast<std::int64_t>(asked.size() * 5 % 7) + 1); // 1, 6, 4, 2, 7, 5
    return asked.back();
  };
  const MemorySink parts = run(prefix, options);
  CHECK(asked.size() == 6); // 1 + 6 + 4 + 2 + 7 records, and then none
  CHECK(parts.ids() == whole.ids());
  for (std::size_t i = 0; i < whole.members.size(); ++i)
    CHECK(at::allclose(model::to_torch(parts.row(i).values.at(0)), model::to_torch(whole.row(i).values.at(0)),
                       1e-4, 1e-5));
}

TEST_CASE_FIXTURE(Fixture, "a job in a budget gives what it gives alone, and leaves no lease") {
  const extract::Prefix prefix = test::prefix_at(model, "block");
  const extract::MemoryModel needs = measure(prefix, memory(2, 16));
  extract::ExtractOptions options;
  {
    lease::Options wanted;
    wanted.folder = folder.path("leases");
    wanted.budget = std::int64_t{1} << 40;
    wanted.output_watched = false;
    lease::Lease lease(wanted);
    lease.start(1 << 20);
    options.batch = lease.run(needs.demand, 0);
    CHECK(options.batch == 16);
    extract::AdaptiveBatch batch(lease, needs);
    options.adapt = [&batch] { return batch(); };
    CHECK(run(prefix, options).members.size() == 20);
  }
  for (const auto &entry : std::filesystem::directory_iterator(folder.path("leases")))
    CHECK(entry.path().extension() != ".lease");
}

TEST_CASE_FIXTURE(Fixture, "the demand counts what a record is on its way") {
  const auto demand = [&](const extract::Prefix &prefix) { return measure(prefix, memory(2, 16)); };
  const std::int64_t input = 3 * 8 * 8 * 4;
  const extract::MemoryModel pixels = demand(test::prefix_at(model, "input"));
  CHECK(pixels.network_per_record == 0);
  CHECK(pixels.demand.per_record >= 4 * input); // f32 before it is one byte each
  const extract::MemoryModel network = demand(test::prefix_at(model, "block"));
  CHECK(network.network_per_record > 0);
  CHECK(network.demand.per_record > network.network_per_record + 4 * input);
  CHECK(network.demand.fixed > 1 << 20);
  CHECK(network.demand.least == 2);
  CHECK(network.demand.wanted == 16);
  CHECK(network.demand.half_batch >= 0);
  CHECK(network.demand.half_batch <= 16);
  const extract::MemoryModel files = demand(extract::Prefix::of_records(data::Dataset::open(photos.root())));
  CHECK(files.demand.per_record >= static_cast<std::int64_t>(test::noise_ppm(10, 8, 1).size()));
}

TEST_CASE_FIXTURE(Fixture,
                  "the smallest batch is no larger than the largest, and a record too large is not tried") {
  const extract::Prefix prefix = test::prefix_at(model, "block");
  CHECK(measure(prefix, memory(8, 3)).demand.least == 3);
  extract::MemoryOptions options = memory(1, 4);
  options.available = 100; // bytes
  const extract::MemoryModel untried = measure(prefix, options);
  CHECK(untried.network_per_record == 0);
  CHECK(untried.demand.memory(1) > options.available);
}

TEST_CASE_FIXTURE(Fixture, "loading is expected to take several times the file") {
  const std::string small = folder.write("small", std::string(1000, 'x'));
  const std::string large = folder.write("large", std::string(10 << 20, 'x'));
  CHECK(extract::loading_memory(large) - extract::loading_memory(small) > 30 << 20);
  CHECK(extract::loading_memory("") < extract::loading_memory(small));
  CHECK(extract::loading_memory(folder.path("missing")) > 0);
}
