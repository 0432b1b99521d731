// Features in every codec: what the sink gets decodes to what was computed.
#include "cli/error.h"
#include "model/tensors.h"
#include "shard/coding.h"
#include "support/extraction.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using codec::Codec;
using codec::Number;
using test::MemorySink;

namespace {

struct Fixture {
  test::TempFolder folder;
  test::Photos photos;
  model::Model model = test::load_small(test::save(test::conv_net(), folder.path("model.pt")));

  Fixture() {
    for (int i = 0; i < 7; ++i)
      photos.add((i % 2 ? "dog/" : "cat/") + std::to_string(i) + ".ppm", static_cast<unsigned>(i));
  }

  extract::Prefix prefix(const std::string &cut, std::optional<Codec> codec) const {
    const std::vector<bool> all(model.graph.values.size(), true);
    return extract::Prefix(model, graph::find_cut(model.graph, all, cut), test::small_pictures(), codec);
  }

  MemorySink run(const extract::Prefix &prefix, std::int64_t batch = 3) const {
    const data::Dataset dataset = data::Dataset::open(photos.root());
    MemorySink sink = empty_sink(prefix);
    extract::ExtractOptions options;
    options.batch = batch;
    const extract::ExtractReport report = extract::extract(dataset, prefix, sink, options);
    const bool encodes = std::any_of(report.stages.begin(), report.stages.end(),
                                     [](const auto &stage) { return stage.name == "encode"; });
    CHECK(encodes == (prefix.meta().zstd || prefix.meta().codec != prefix.computed().codec));
    return sink;
  }

  MemorySink empty_sink(const extract::Prefix &prefix) const {
    MemorySink sink;
    sink.meta = prefix.meta();
    sink.meta.classes = data::Dataset::open(photos.root()).classes();
    return sink;
  }
};

/// Largest difference of the decoded feature from the computed one, relative to the largest magnitude.
double error_of(const shard::Shard &coded, const shard::Shard &computed) {
  const std::vector<Tensor> values = shard::decode(coded.meta, shard::unpack(coded));
  double error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const at::Tensor have = model::to_torch(values[i]), want = model::to_torch(computed.values[i]);
    REQUIRE(have.sizes() == want.sizes());
    REQUIRE(have.dtype() == want.dtype());
    error = std::max(error, (have - want).abs().max().item<double>() / want.abs().max().item<double>());
  }
  return error;
}

} // namespace

TEST_CASE_FIXTURE(Fixture, "every codec at every cut decodes to what is computed, within its error") {
  for (const graph::Cut &cut :
       graph::enumerate_cuts(model.graph, std::vector<bool>(model.graph.values.size(), true))) {
    if (cut.position == 0) continue; // pixels
    const std::string name = cut.name(model.graph);
    const MemorySink plain = run(prefix(name, {}));
    for (const Codec codec : codec::kCodecs) {
      if (codec.number == Number::u8) continue;
      const MemorySink coded = run(prefix(name, codec));
      REQUIRE(coded.members.size() == 7);
      CHECK(coded.ids() == plain.ids());
      for (std::size_t i = 0; i < 7; ++i) {
        const double most = codec.exact() ? 0 : codec.number == Number::bf16 ? 1.0 / 256 : 0.501 / 127;
        CHECK(error_of(coded.row(i), plain.row(i)) <= most);
      }
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "pixels can be compressed, and pictures sent as normalised numbers") {
  const MemorySink pixels = run(prefix("input", {})), packed = run(prefix("input", Codec{Number::u8, true})),
                   floats = run(prefix("input", Codec::fp32));
  for (std::size_t i = 0; i < 7; ++i) {
    const shard::Shard unpacked = shard::unpack(packed.row(i));
    CHECK(at::equal(model::to_torch(unpacked.values[0]), model::to_torch(pixels.row(i).values[0])));
    CHECK(at::equal(model::to_torch(floats.row(i).values[0]),
                    model::to_torch(data::normalise(test::small_pictures(), pixels.row(i).values[0]))));
  }
  CHECK_THROWS_AS(prefix("conv1", Codec::u8), UsageError);
}

TEST_CASE_FIXTURE(Fixture, "coded features depend on no batch") {
  const extract::Prefix coded = prefix("input", Codec{Number::int8, true});
  const MemorySink one = run(coded, 1), all = run(coded, 7);
  for (std::size_t i = 0; i < 7; ++i) CHECK(one.row(i).file(0) == all.row(i).file(0));
}

TEST_CASE_FIXTURE(Fixture, "a sink that fails ends the work, encoder and all, with its own error") {
  const data::Dataset dataset = data::Dataset::open(photos.root());
  const extract::Prefix coded = prefix("conv1", Codec{Number::bf16, true});
  extract::ExtractOptions options;
  options.batch = 1;
  for (const int call : {0, 1, 6}) {
    MemorySink sink = empty_sink(coded);
    sink.fail_at = call;
    CHECK_THROWS_WITH_AS(extract::extract(dataset, coded, sink, options), "the sink is full", Error);
    CHECK(sink.failure.empty());
    CHECK(sink.members.size() == static_cast<std::size_t>(call));
  }
}

TEST_CASE_FIXTURE(Fixture, "records that are kept or damaged pass the encoder in their places") {
  const extract::Prefix coded = prefix("conv1", Codec{Number::int8, true});
  const data::Dataset before = data::Dataset::open(photos.root());
  MemorySink sink = empty_sink(coded);
  extract::ExtractOptions options;
  options.batch = 2;
  options.keep_going = true;
  extract::extract(before, coded, sink, options);
  photos.add_damaged("cat/3damaged.ppm");
  photos.add("cat/3new.ppm", 50);
  photos.add("dog/9new.ppm", 51);
  sink.members.clear();
  const data::Dataset dataset = data::Dataset::open(photos.root());
  const extract::ExtractReport report = extract::extract(dataset, coded, sink, options);
  CHECK(report.computed == 2);
  CHECK(report.kept == 7);
  CHECK(report.skipped.size() == 1);
  CHECK(sink.ids() == std::vector<std::string>{"cat/0.ppm", "cat/2.ppm", "cat/3new.ppm", "cat/4.ppm",
                                               "cat/6.ppm", "dog/1.ppm", "dog/3.ppm", "dog/5.ppm",
                                               "dog/9new.ppm"});
}
