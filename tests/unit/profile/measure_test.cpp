// What is measured: plausible, complete, and a valid document.
#include "cli/error.h"
#include "cli/log.h"
#include "model/peak_memory.h"
#include "profile/data.h"
#include "profile/executions.h"
#include "profile/host.h"
#include "profile/model.h"
#include "profile/table.h"
#include "profile/training.h"
#include "runtime/host.h"
#include "support/files.h"
#include "support/models.h"
#include "support/photos.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;

namespace {

profile::ModelOptions quick(std::vector<std::int64_t> batches) {
  profile::ModelOptions options;
  options.batches = std::move(batches);
  options.all_batches = true;
  options.seconds = 0;
  return options;
}

/// Written and read back.
plan::Profile through_json(const plan::Profile &profile) {
  return plan::profile_from_json(json::parse(json::pretty(to_json(profile)), "test"), "test");
}

} // namespace

TEST_CASE("a network is measured at every batch size, frozen and trained") {
  test::TempFolder folder;
  const data::Preprocess pictures = data::parse_preprocess("resize=16x16");
  const model::Model net = model::load_model(test::save(test::conv_net(), folder.path("net.pt")),
                                             {DType::f32, {3, 16, 16}}, pictures.digest());
  plan::Profile profile;
  profile.model = profile::measure_model(net, pictures, quick({4, 32})).profile;
  const plan::Measurement measured = through_json(profile).model->measured;
  CHECK(measured.batches == std::vector<std::int64_t>{4, 32});
  CHECK(measured.threads == usable_cores());
  REQUIRE(measured.segments.size() >= 3);
  int at = 0;
  for (const plan::Segment &segment : measured.segments) {
    CHECK(segment.first == at); // no gap
    at = segment.last;
    CHECK(segment.train_seconds.size() == 2);
    for (const double seconds : segment.seconds) CHECK(seconds > 0);
    for (const double seconds : segment.train_seconds) CHECK(seconds > 0);
    // At least its inputs, and they grow with the batch.
    CHECK(segment.peak_bytes[0] > 0);
    CHECK(segment.peak_bytes[1] > 2 * segment.peak_bytes[0]);
  }
  CHECK(at == static_cast<int>(net.graph.nodes.size()));
  for (std::size_t k = 0; k < measured.batches.size(); ++k) { // both ways to divide the whole
    double prefix = 0, suffix = 0;
    for (const plan::Segment &segment : measured.segments) {
      prefix += segment.seconds[k];
      suffix += segment.suffix_seconds.at(k);
    }
    CHECK(prefix == doctest::Approx(measured.whole_seconds[k]));
    CHECK(suffix == doctest::Approx(measured.whole_seconds[k]));
  }
  CHECK(measured.segments[0].peak_bytes[0] >= 4 * (3 + 8) * 16 * 16 * 4); // the pictures and the first maps
  const std::string table = profile::table(profile);
  for (const char *word : {"input", "block", "fc", "8x16x16", "batch 32"})
    CHECK(table.find(word) != std::string::npos);
}

TEST_CASE("the ways to run layers are measured, and the fastest is taken if it is clearly faster") {
  test::TempFolder folder;
  const data::Preprocess pictures = data::parse_preprocess("resize=16x16");
  const model::Model net = model::load_model(test::save(test::conv_net(), folder.path("net.pt")),
                                             {DType::f32, {3, 16, 16}}, pictures.digest());
  profile::ModelOptions options = quick({4});
  options.allow_bf16 = true;
  plan::Profile profile;
  profile.model = profile::measure_model(net, pictures, options).profile;
  const plan::Measurement measured = through_json(profile).model->measured;
  REQUIRE(measured.executions.size() == 3);
  for (const plan::ExecutionCost &cost : measured.executions) {
    CHECK(cost.seconds > 0);
    CHECK(cost.rms_error < (graph::exact(cost.execution) ? 1e-5 : 3e-2));
    CHECK((cost.rms_error > 1e-6) == !graph::exact(cost.execution));
  }
  CHECK(measured.execution == profile::fastest(measured.executions));
  CHECK(profile::table(profile).find("error 0.0") != std::string::npos);
  for (const plan::ExecutionCost &cost :
       profile::measure_model(net, pictures, quick({4})).profile.measured.executions)
    CHECK(graph::exact(cost.execution));

  using graph::Execution;
  CHECK(profile::fastest({{Execution::blocked, 1.0, 0}, {Execution::channels_last, 0.99, 0}}) ==
        Execution::blocked);
  CHECK(profile::fastest(
            {{Execution::blocked, 1.0, 0}, {Execution::channels_last, 0.8, 0}, {Execution::bf16, 0.5, 0}}) ==
        Execution::bf16);
}

TEST_CASE("token networks are measured too") {
  test::TempFolder folder;
  const data::Preprocess tokens = data::parse_preprocess("tokens");
  const model::Model net = model::load_model(test::save(test::token_net(), folder.path("net.pt")),
                                             {DType::i64, {6}}, tokens.digest());
  plan::Profile profile;
  profile.model = profile::measure_model(net, tokens, quick({2})).profile;
  CHECK(through_json(profile).model->measured.segments.size() >= 2);
}

TEST_CASE("a training step gives every parameter and input a gradient, and leaves none behind") {
  test::TempFolder folder;
  const model::Model net =
      model::load_model(test::save(test::conv_net(), folder.path("net.pt")), test::kPicture, Digest());
  const std::vector<bool> all(net.graph.values.size(), true);
  const graph::Cut input = graph::find_cut(net.graph, all, "input");
  for (const graph::Cut &cut : graph::enumerate_cuts(net.graph, all)) {
    if (cut.position == 0) continue;
    CAPTURE(cut.name(net.graph));
    profile::TrainingStep step(net, input, cut);
    for (const std::int64_t batch : {1, 3}) step.run({test::Draws(1).uniform({batch, 3, 8, 8}, -1, 1)});
  }
}

TEST_CASE("a segment without gradient has no training time, and a note says so") {
  test::TempFolder folder;
  const std::string path =
      test::save(test::from_source("def forward(self, x):\n"
                                   "  y = torch.matmul(x, self.weight)\n"
                                   "  return torch.matmul(torch.nextafter(y, y), self.weight)\n"),
                 folder.path("m.pt"));
  const data::Preprocess rows = data::parse_preprocess("tensor");
  const model::Model net = model::load_model(path, {DType::f32, {4}}, rows.digest());
  const profile::MeasuredModel measured = profile::measure_model(net, rows, quick({2, 3}));
  const std::vector<plan::Segment> &segments = measured.profile.measured.segments;
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].train_seconds.empty());
  CHECK(segments[0].seconds.size() == 2);
  CHECK(segments[1].train_seconds.size() == 2);
  CHECK(std::count_if(measured.notes.begin(), measured.notes.end(), [](const std::string &note) {
          return note.find("nextafter") != std::string::npos;
        }) == 1);
}

TEST_CASE("larger batches are left out when the time is up, unless asked for") {
  test::TempFolder folder;
  const data::Preprocess pictures = data::parse_preprocess("resize=16x16");
  const model::Model net = model::load_model(test::save(test::conv_net(), folder.path("net.pt")),
                                             {DType::f32, {3, 16, 16}}, pictures.digest());
  profile::ModelOptions options = quick({1, 8, 32});
  options.all_batches = false;
  const profile::MeasuredModel measured = profile::measure_model(net, pictures, options);
  CHECK(measured.profile.measured.batches == std::vector<std::int64_t>{1});
  CHECK(measured.notes.size() == 3); // about the first, and the two that are left out
  CHECK_THROWS_AS(profile::measure_model(net, pictures, quick({})), UsageError);
  CHECK_THROWS_AS(profile::measure_model(net, pictures, quick({8, 1})), UsageError);
  CHECK_THROWS_AS(profile::measure_model(net, pictures, quick({0})), UsageError);
}

TEST_CASE("peak memory counts what is alive at once") {
  const std::int64_t megabyte = 1 << 20;
  const auto tensor = [&](std::int64_t megabytes) {
    return torch::empty({megabytes * megabyte}, at::TensorOptions().dtype(at::kByte));
  };
  const at::Tensor before = tensor(50);
  model::PeakMemory memory;
  CHECK(memory.peak_bytes() == 0);
  tensor(3);
  tensor(3);
  CHECK(memory.peak_bytes() >= 3 * megabyte);
  CHECK(memory.peak_bytes() < 4 * megabyte);
  {
    const at::Tensor one = tensor(2), other = tensor(4);
    CHECK(memory.peak_bytes() >= 6 * megabyte);
  }
  CHECK(memory.peak_bytes() < 7 * megabyte);
}

TEST_CASE("data: sizes, classes and damaged records are counted") {
  test::Photos photos;
  for (int i = 0; i < 6; ++i) photos.add((i % 2 ? "a/" : "b/") + std::to_string(i) + ".ppm", 1);
  const data::Preprocess small = data::parse_preprocess("resize=8x8");
  const double size = static_cast<double>(test::noise_ppm(10, 8, 1).size());
  {
    const profile::MeasuredData measured = profile::measure_data(data::Dataset::open(photos.root()), small);
    CHECK(measured.sampled == 6);
    CHECK(measured.profile.records == 6);
    CHECK(measured.profile.classes == 2);
    CHECK(measured.profile.bytes_per_record == doctest::Approx(size));
    CHECK(measured.profile.read_seconds > 0);
    CHECK(measured.profile.decode_seconds > 0);
    CHECK(measured.notes.empty());
    plan::Profile profile;
    profile.data = measured.profile;
    CHECK(through_json(profile).data->records == 6);
    CHECK(profile::table(profile).find("6 records") != std::string::npos);
  }
  photos.add_damaged("a/bad.ppm");
  profile::DataOptions options;
  options.threads = 3;
  const profile::MeasuredData measured =
      profile::measure_data(data::Dataset::open(photos.root()), small, options);
  CHECK(measured.damaged == 1);
  CHECK(measured.profile.threads == 3);
  CHECK(measured.profile.bytes_per_record == doctest::Approx(size));
  REQUIRE(measured.notes.size() == 1);
  CHECK(measured.notes[0].find("a/bad.ppm") != std::string::npos);

  options.records = 2;
  CHECK(profile::measure_data(data::Dataset::open(photos.root()), small, options).sampled <= 2);

  test::Photos bad;
  bad.add_damaged("a/1.ppm");
  CHECK_THROWS_WITH_AS(profile::measure_data(data::Dataset::open(bad.root()), small),
                       doctest::Contains("1.ppm"), Error);
}

TEST_CASE("the host is measured and a slow BLAS is named") {
  plan::Profile profile;
  profile.host = profile::measure_host();
  const plan::HostProfile host = *through_json(profile).host;
  CHECK(host.cores >= 1);
  CHECK(host.memory_bytes > (1 << 26));
  CHECK(host.blas.gflops > 0);
  CHECK(host.bf16->gflops > 0);
  CHECK(host.memory_bandwidth > 1e7);
  CHECK(host.stream.value().send_bandwidth > 1e6);
  CHECK(host.stream.value().receive_bandwidth > 1e6);
  CHECK(profile::table(profile).find("GFLOP/s") != std::string::npos);

  plan::HostProfile slow = host;
  slow.blas_slow = true;
  CHECK(profile::blas_warning(slow).find("libopenblas0") != std::string::npos);
  slow.blas_slow = false;
  CHECK(profile::blas_warning(slow).empty());
}
