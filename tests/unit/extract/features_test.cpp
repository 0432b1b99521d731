// The features: equal to the network's own, whatever the batch; every record once, in order.
#include "cli/error.h"
#include "model/tensors.h"
#include "support/extraction.h"

#include <doctest/doctest.h>

using namespace tl;
using test::MemorySink;

namespace {

struct Fixture {
  test::TempFolder folder;
  test::Photos photos;
  std::string path = test::save(test::conv_net(), folder.path("model.pt"));
  model::Model model = test::load_small(path);

  Fixture() {
    for (int i = 0; i < 7; ++i)
      photos.add((i % 2 ? "dog/" : "cat/") + std::to_string(i) + ".ppm", static_cast<unsigned>(i));
  }

  MemorySink run(const extract::Prefix &prefix, const extract::ExtractOptions &options = {}) const {
    const data::Dataset dataset = data::Dataset::open(photos.root());
    MemorySink sink;
    sink.meta = prefix.meta();
    sink.meta.classes = dataset.classes();
    const extract::ExtractReport report = extract::extract(dataset, prefix, sink, options);
    CHECK(report.inputs == report.sink.records + static_cast<std::int64_t>(report.skipped.size()));
    return sink;
  }
};

extract::ExtractOptions batches_of(std::int64_t batch, std::size_t threads = 0) {
  extract::ExtractOptions options;
  options.batch = batch;
  options.threads = threads;
  return options;
}

/// What the file's own modules give, one record at a time.
at::Tensor reference(torch::jit::Module net, const std::string &cut, const at::Tensor &input) {
  const auto call = [&](const char *name, const at::Tensor &x) {
    return net.attr(name).toModule().forward({x}).toTensor();
  };
  at::Tensor x = call("conv1", input);
  if (cut == "conv1") return x;
  x = call("bn1", x);
  if (cut == "bn1") return x;
  x = call("block", x.relu());
  if (cut == "block") return x;
  x = call("down", x);
  if (cut == "down") return x;
  return x.relu().mean({2, 3});
}

/// A classifier's input has no name of its own in the test network.
std::string pooled(const model::Model &model) {
  return model.graph.values[static_cast<std::size_t>(graph::classifier_input(model.graph))].name;
}

} // namespace

TEST_CASE_FIXTURE(Fixture, "features are what the network computes at the cut, for every batch size") {
  torch::jit::Module net = torch::jit::load(path);
  net.eval();
  const data::Dataset dataset = data::Dataset::open(photos.root());
  data::Preparer preparer(test::small_pictures());
  for (const std::string &cut :
       {std::string("conv1"), std::string("bn1"), std::string("block"), std::string("down"), pooled(model)}) {
    CAPTURE(cut);
    const extract::Prefix prefix = test::prefix_at(model, cut);
    for (const std::int64_t batch : {1, 2, 3, 7, 32}) {
      CAPTURE(batch);
      const MemorySink sink = run(prefix, batches_of(batch));
      REQUIRE(sink.members.size() == 7);
      for (std::size_t i = 0; i < 7; ++i) {
        const at::Tensor input = model::to_torch(preparer.input(dataset.read(i))).unsqueeze(0);
        const at::Tensor have = model::to_torch(sink.row(i).values.at(0));
        CHECK(at::allclose(have, reference(net, cut, input), 1e-4, 1e-5));
      }
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "what an in-place operator follows is written as it was before it") {
  for (const char *cut : {"bn1", "down"}) { // relu_ comes next
    const MemorySink sink = run(test::prefix_at(model, cut));
    bool negative = false;
    for (std::size_t i = 0; i < sink.members.size(); ++i)
      negative = negative || (model::to_torch(sink.row(i).values.at(0)) < 0).any().item<bool>();
    CHECK(negative);
  }
}

TEST_CASE_FIXTURE(Fixture, "a cut of several tensors gives them all") {
  const std::vector<bool> all(model.graph.values.size(), true);
  for (const graph::Cut &cut : graph::enumerate_cuts(model.graph, all)) {
    if (cut.values.size() < 2) continue;
    const MemorySink sink = run(extract::Prefix(model, cut, test::small_pictures()), batches_of(3));
    CHECK(sink.row(0).values.size() == cut.values.size());
    CHECK(sink.members.size() == 7);
  }
}

TEST_CASE_FIXTURE(Fixture, "records come in listing order with their labels, ids and hashes") {
  const data::Dataset dataset = data::Dataset::open(photos.root());
  for (const std::size_t threads : {1, 4}) {
    const MemorySink sink = run(test::prefix_at(model, "conv1"), batches_of(2, threads));
    REQUIRE(sink.members.size() == 7);
    for (std::size_t i = 0; i < 7; ++i) {
      CHECK(sink.members[i].id == dataset.records()[i].id);
      CHECK(sink.members[i].label == dataset.records()[i].label);
      CHECK(sink.members[i].row == static_cast<std::int64_t>(i));
      CHECK(sink.members[i].record == dataset.read(i).hash);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "shuffled order follows the seed and the id, nothing else") {
  const data::Dataset dataset = data::Dataset::open(photos.root());
  extract::ExtractOptions options = batches_of(2);
  options.shuffle = true;
  options.seed = 5;
  const MemorySink sink = run(test::prefix_at(model, "conv1"), options);
  std::vector<std::string> want;
  for (const std::uint32_t index : data::record_order(dataset, true, 5))
    want.push_back(dataset.records()[index].id);
  CHECK(sink.ids() == want);
  options.seed = 6;
  CHECK(run(test::prefix_at(model, "conv1"), options).ids() != want);
}

TEST_CASE_FIXTURE(Fixture, "pixels cross in one byte each and give the same input") {
  const extract::Prefix prefix = test::prefix_at(model, "input");
  CHECK(prefix.meta().codec == "u8");
  CHECK(prefix.operators() == 0);
  const MemorySink sink = run(prefix, batches_of(3));
  const data::Dataset dataset = data::Dataset::open(photos.root());
  data::Preparer preparer(test::small_pictures());
  for (std::size_t i = 0; i < 7; ++i) {
    const Tensor &pixels = sink.row(i).values.at(0);
    CHECK(pixels.dtype == DType::u8);
    const at::Tensor have = model::to_torch(data::normalise(test::small_pictures(), pixels)).squeeze(0);
    CHECK(at::equal(have, model::to_torch(preparer.input(dataset.read(i)))));
  }
}

TEST_CASE_FIXTURE(Fixture, "records cross as they are stored") {
  photos.add_damaged("cat/damaged.ppm"); // whoever decodes it will see
  const data::Dataset dataset = data::Dataset::open(photos.root());
  const MemorySink sink = run(extract::Prefix::of_records(dataset), batches_of(3));
  REQUIRE(sink.members.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const data::Encoded record = dataset.read(i);
    CHECK(sink.row(i).file(0) == std::string_view(reinterpret_cast<const char *>(record.content.data.get()),
                                                  record.content.bytes()));
  }
}

TEST_CASE("one record, and none") {
  Fixture one;
  for (int i = 1; i < 7; ++i) one.photos.remove((i % 2 ? "dog/" : "cat/") + std::to_string(i) + ".ppm");
  CHECK(one.run(test::prefix_at(one.model, "block"), batches_of(32)).members.size() == 1);

  // A list may be empty; a folder without pictures is refused by the data set itself.
  const std::string list = one.folder.write("empty.csv", "path,label\n");
  const data::Dataset none = data::Dataset::open(list);
  MemorySink sink;
  const extract::Prefix prefix = test::prefix_at(one.model, "block");
  sink.meta = prefix.meta();
  const extract::ExtractReport report = extract::extract(none, prefix, sink);
  CHECK(report.inputs == 0);
  CHECK(sink.members.empty());
  CHECK(sink.skipped == 0);
}

TEST_CASE("token ids go through an embedding") {
  test::TempFolder folder;
  const std::string path = test::save(test::token_net(), folder.path("tokens.pt"));
  shard::SafeTensors file;
  Tensor tokens = Tensor::empty(DType::i64, {5, 6});
  for (int i = 0; i < 30; ++i) tokens.as<std::int64_t>()[i] = i * 7 % 50;
  file.tensors.push_back({"tokens", tokens});
  std::string text;
  shard::write_safetensors(file, shard::string_sink(text));
  const data::Dataset dataset = data::Dataset::open(folder.write("t.safetensors", text));
  const data::Preprocess preprocess = extract::default_preprocess(dataset);
  const model::InputSpec spec = extract::input_spec(preprocess, dataset);
  CHECK(spec.dtype == DType::i64);
  CHECK(spec.shape == Shape{6});
  const model::Model model = model::load_model(path, spec, preprocess.digest());
  for (const char *cut : {"embed", "mix", "input"}) {
    const extract::Prefix prefix = test::prefix_at(model, cut, preprocess);
    MemorySink sink;
    sink.meta = prefix.meta();
    extract::extract(dataset, prefix, sink, batches_of(2));
    REQUIRE(sink.members.size() == 5);
    torch::jit::Module net = torch::jit::load(path);
    const at::Tensor input = model::to_torch(tokens);
    at::Tensor want = input;
    if (cut != std::string("input")) want = net.attr("embed").toModule().forward({want}).toTensor();
    if (cut == std::string("mix")) want = net.attr("mix").toModule().forward({want}).toTensor();
    for (std::size_t i = 0; i < 5; ++i)
      CHECK(at::allclose(model::to_torch(sink.row(i).values[0])[0], want[static_cast<std::int64_t>(i)], 1e-5,
                         1e-6));
  }
}

TEST_CASE("the size of the input comes from the preprocessing or the rows") {
  test::Photos photos;
  photos.add("cat/1.ppm", 1);
  const data::Dataset folder = data::Dataset::open(photos.root());
  CHECK(extract::input_spec(data::parse_preprocess("imagenet"), folder).shape == Shape{3, 224, 224});
  CHECK_THROWS_WITH_AS(extract::input_spec(data::parse_preprocess("raw"), folder), doctest::Contains("crop"),
                       UsageError);
  CHECK_THROWS_AS(extract::input_spec(data::parse_preprocess("tokens"), folder), UsageError);
  CHECK_THROWS_AS(extract::input_spec(data::parse_preprocess("tensor"), folder), UsageError);
  CHECK(extract::default_preprocess(folder) == data::parse_preprocess("imagenet"));

  const auto rows = [&](DType dtype, const Shape &shape) {
    static test::TempFolder temporary;
    static int number = 0;
    shard::SafeTensors file;
    Shape whole{2};
    whole.insert(whole.end(), shape.begin(), shape.end());
    file.tensors.push_back({"input", Tensor::empty(dtype, whole)});
    std::string text;
    shard::write_safetensors(file, shard::string_sink(text));
    return data::Dataset::open(temporary.write(std::to_string(number++) + ".safetensors", text));
  };
  const data::Dataset grey = rows(DType::u8, {28, 20});
  CHECK(extract::input_spec(data::parse_preprocess("raw"), grey).shape == Shape{3, 28, 20});
  CHECK(extract::input_spec(data::parse_preprocess("raw,channels=1"), grey).shape == Shape{1, 28, 20});
  CHECK(extract::input_spec(data::parse_preprocess("raw,resize=14"), grey).shape == Shape{3, 19, 14});
  CHECK(extract::input_spec(data::parse_preprocess("tensor"), grey).shape == Shape{28, 20});
  CHECK_THROWS_WITH_AS(extract::default_preprocess(grey), doctest::Contains("--preprocess"), UsageError);
  const data::Dataset numbers = rows(DType::f32, {12});
  CHECK(extract::default_preprocess(numbers) == data::parse_preprocess("tensor"));
  CHECK(extract::input_spec(data::parse_preprocess("tensor"), numbers).shape == Shape{12});
  CHECK_THROWS_AS(extract::input_spec(data::parse_preprocess("raw"), numbers), UsageError);
}
