#include "plan/cost.h"

#include "cli/error.h"
#include "graph/flops.h"
#include "support/profiles.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::test;
using doctest::Approx;

namespace {

const plan::Option &named(const std::vector<plan::Option> &options, const std::string &name) {
  for (const plan::Option &option : options)
    if (option.name == name) return option;
  FAIL("no option " << name);
  return options.front();
}

/// Seconds a record of the head that make_request() adds to a vector of `width`: 5 classes, trained.
double head_seconds(double width) { return 3 * 2 * 5 * width / 100e9; }

plan::NodeCosts costs_of(const plan::Profile &profile, const Graph &graph) {
  return plan::NodeCosts(*profile.model, *profile.host, graph);
}

} // namespace

TEST_CASE("a prefix costs its nodes, a step the rest") {
  const plan::Request request = make_request(chain());
  const plan::Problem problem = make_problem(request);
  const plan::NodeCosts costs = costs_of(request.storage, problem.graph);
  for (const std::int64_t batch : {1, 4, 16}) {
    const auto b = static_cast<double>(batch);
    for (int position = 0; position <= 6; ++position) {
      CHECK(costs.prefix_seconds(position, batch) == Approx(1e-3 * position * b));
      CHECK(costs.step_seconds(position, batch) == Approx((1e-3 * (6 - position) + head_seconds(8)) * b));
    }
  }
}

TEST_CASE("a part may cost more behind a cut than before one") {
  plan::Request request = make_request(chain());
  for (plan::Segment &segment : request.storage.model->measured.segments)
    for (const double seconds : segment.seconds) segment.suffix_seconds.push_back(1.5 * seconds);
  const plan::Problem problem = make_problem(request);
  const plan::NodeCosts costs = costs_of(request.storage, problem.graph);
  CHECK(costs.prefix_seconds(4, 4) == Approx(4e-3 * 4));
  CHECK(costs.step_seconds(4, 4) == Approx((3e-3 + head_seconds(8)) * 4));
}

TEST_CASE("trained nodes cost what was measured forward and backward, else three times forward") {
  plan::Request request = make_request(chain());
  request.scheme.train = "^conv2";
  plan::Problem problem = make_problem(request); // conv2, relu2, avgpool and flatten carry gradients
  CHECK(costs_of(request.storage, problem.graph).step_seconds(0, 1) ==
        Approx(2e-3 + 4 * 2e-3 + head_seconds(8)));
  for (plan::Segment &segment : problem.storage_model.measured.segments) segment.train_seconds.clear();
  const plan::NodeCosts costs(problem.storage_model, problem.storage_host, problem.graph);
  CHECK(costs.step_seconds(0, 1) == Approx(2e-3 + 4 * 3e-3 + head_seconds(8)));
}

TEST_CASE("nodes of a segment share its time by FLOPs and bytes") {
  const Graph graph = chain();
  plan::Request request = make_request(graph);
  plan::Measurement &measured = request.storage.model->measured;
  measured.segments = {{0, 2, {1, 4, 16}, {}, {}, {0, 0, 0}}}; // conv1 and relu1; the rest costs nothing
  const plan::Problem problem = make_problem(request);
  const plan::NodeCosts costs = costs_of(request.storage, problem.graph);
  const double elements = 4 * 64, input = 3 * 64, weights = 4 * 27 + 4;
  const double conv = 2 * elements * 27 + 4 * (elements + input + weights),
               relu = elements + 4 * 2 * elements;
  CHECK(costs.prefix_seconds(1, 1) == Approx(conv / (conv + relu)));
  CHECK(costs.prefix_seconds(2, 1) == Approx(1));
  CHECK(costs.prefix_seconds(6, 1) == Approx(1));
}

TEST_CASE("times between and beyond the measured batches") {
  plan::Request request = make_request(chain());
  plan::Measurement &measured = request.storage.model->measured;
  measured.batches = {4, 16};
  measured.segments = {{0, 6, {1, 2}, {}, {3, 6}, {100, 300}}};
  measured.whole_seconds = {1, 2};
  const plan::NodeCosts costs = costs_of(request.storage, make_problem(request).graph);
  CHECK(costs.prefix_seconds(6, 2) == Approx(0.5));
  CHECK(costs.prefix_seconds(6, 4) == Approx(1));
  CHECK(costs.prefix_seconds(6, 10) == Approx(1.5));
  CHECK(costs.prefix_seconds(6, 16) == Approx(2));
  CHECK(costs.prefix_seconds(6, 32) == Approx(4));
}

TEST_CASE("a host with idle cores runs several workers") {
  plan::Request request = make_request(chain());
  request.storage.model->measured.threads = 1; // of four cores
  CHECK(costs_of(request.storage, make_problem(request).graph).prefix_seconds(6, 1) == Approx(6e-3 / 4));
}

TEST_CASE("memory: parameters and the worst moment; training keeps gradients and moments") {
  plan::Request request = make_request(chain());
  request.storage.model->measured.segments[2].peak_bytes = {5000, 20000, 80000};
  const plan::Problem problem = make_problem(request);
  const plan::NodeCosts costs = costs_of(request.storage, problem.graph);
  const std::int64_t conv1 = 4 * (4 * 27 + 4), conv2 = 4 * (8 * 36 + 8), head = 4 * (5 * 8 + 5);
  CHECK(costs.prefix_memory(0, 4) == 4 * 3 * 64 * 4);
  CHECK(costs.prefix_memory(2, 4) == conv1 + 4000);
  CHECK(costs.prefix_memory(6, 16) == conv1 + conv2 + 80000);
  CHECK(costs.step_memory(0, 4) == conv1 + conv2 + 4 * head + 20000);
  CHECK(costs.step_memory(6, 4) == 4 * head + std::max(4 * 4 * (8 + 5), 2 * 4 * 4 * 5));
}

TEST_CASE("the other side's file may name its values differently") {
  std::mt19937 random(7);
  const plan::Request request = make_request(chain());
  Graph renamed = chain();
  for (graph::Value &value : renamed.values) value.name = "other." + value.name;
  renamed.values[0].name = "input";
  const plan::Profile other = make_profile(
      renamed, [](int n) { return 1e-3 * (n + 1); }, "other");
  CHECK(costs_of(other, make_problem(request).graph).prefix_seconds(3, 1) == Approx(6e-3));
}

TEST_CASE("a record costs each tier what the formula says") {
  const plan::Request request = make_request(chain(), 1e6);
  const plan::Problem problem = make_problem(request);
  const std::vector<plan::Option> options = plan::CostModel(problem).options();
  std::vector<std::string> names;
  for (const plan::Option &option : options) names.push_back(option.name);
  CHECK(names ==
        std::vector<std::string>{"files", "input", "conv1", "relu1", "conv2", "relu2", "avgpool", "flatten"});

  const plan::Prediction &files = named(options, "files").predicted;
  CHECK(files.storage == Approx(1e-4)); // reading
  CHECK(files.link == Approx(0.05));    // 50 kB at 1 MB/s
  CHECK(files.compute == Approx(1e-3 + 6e-3 + head_seconds(8)));
  CHECK(files.storage_memory == 0);
  CHECK(files.bottleneck() == "link");

  const plan::Prediction &input = named(options, "input").predicted; // pixels, one byte each
  CHECK(named(options, "input").candidate.codec == plan::Codec::u8);
  CHECK(input.bytes == 3 * 64);
  CHECK(input.storage == Approx(1e-3)); // decoding on four cores
  CHECK(input.compute == Approx(6e-3 + head_seconds(8)));

  const plan::Prediction &relu2 = named(options, "relu2").predicted;
  CHECK(relu2.bytes == 4 * 8 * 16);
  CHECK(relu2.storage == Approx(1e-3 + 4e-3));
  CHECK(relu2.link == Approx(4 * 8 * 16 / 1e6));
  CHECK(relu2.compute == Approx(2e-3 + head_seconds(8)));
  CHECK(relu2.bottleneck() == "storage");
}

TEST_CASE("an epoch is the slowest tier and the first batch through the others") {
  plan::Request request = make_request(chain(), 1e6);
  request.workload.epochs = 5;
  const plan::Problem problem = make_problem(request);
  const plan::CostModel model(problem);
  CHECK(model.cached_share() == 1);
  CHECK(model.cache_bytes() == 8 * 4);
  const std::vector<plan::Option> options = model.options();
  const plan::Option &option = named(options, "relu2");
  const plan::Prediction &p = option.predicted;
  CHECK(p.first_epoch ==
        Approx(1000 * p.storage + 0.01 + static_cast<double>(option.batch) * (p.link + p.compute)));
  CHECK(p.later == Approx(std::max(8 * 4 / 1e10, head_seconds(8))));
  CHECK(p.later_epoch == Approx(1000 * p.later));
  CHECK(p.total == Approx(p.first_epoch + 4 * p.later_epoch));
}

TEST_CASE("records for which there is no room are read back as they came") {
  plan::Request request = make_request(chain(), 1e6);
  request.workload.epochs = 5;
  const auto later = [&](std::int64_t room, const std::string &name) {
    request.limits.cache_bytes = room;
    const plan::Problem problem = make_problem(request);
    const plan::CostModel model(problem);
    return named(model.options(), name).predicted.later;
  };
  const std::int64_t all = 1000 * 8 * 4;
  const double hot = head_seconds(8), relu2 = 2e-3 + hot, files = 1e-3 + 6e-3 + hot;
  CHECK(later(0, "relu2") == Approx(relu2));
  CHECK(later(all / 2, "relu2") == Approx((hot + relu2) / 2));
  CHECK(later(all, "relu2") == Approx(hot));
  CHECK(later(10 * all, "relu2") == Approx(hot));
  CHECK(later(0, "files") == Approx(files)); // decoded again
  CHECK(later(0, "flatten") == Approx(hot));
}

TEST_CASE("what does not fit half of the memory is read from the disk") {
  plan::Request request = make_request(chain());
  request.compute.host->memory_bytes = 1000 * 8 * 4; // half of it holds 500 records
  request.compute.data->read_seconds = 10;           // 50 kB in 10 s
  const plan::Problem problem = make_problem(request);
  CHECK(named(plan::CostModel(problem).options(), "flatten").predicted.later == Approx(10.0 * 32 / 50000));
}

TEST_CASE("the storage batch is the fastest of those that fit") {
  plan::Request request = make_request(chain());
  for (plan::Segment &segment : request.storage.model->measured.segments) {
    segment.seconds = {1e-3, 2e-3, 6e-3}; // a record: 1, 0.5, 0.375 ms
    segment.peak_bytes = {10000, 40000, 160000};
  }
  const auto batch = [&](std::int64_t memory) {
    request.limits.storage_memory = memory;
    const plan::Problem problem = make_problem(request);
    const std::vector<plan::Option> options = plan::CostModel(problem).options();
    const plan::Option &option = named(options, "conv1");
    return std::make_pair(option.batch, option.feasible);
  };
  const std::int64_t weights = 4 * (4 * 27 + 4);
  CHECK(batch(1 << 30) == std::make_pair(std::int64_t{16}, true));
  CHECK(batch(weights + 160000) == std::make_pair(std::int64_t{16}, true));
  CHECK(batch(weights + 159999) == std::make_pair(std::int64_t{4}, true));
  CHECK(batch(weights + 10000) == std::make_pair(std::int64_t{1}, true));
  CHECK(batch(weights + 9999) == std::make_pair(std::int64_t{1}, false));
  request.storage.model->measured.segments[0].seconds[2] = 1; // the largest is not the fastest
  CHECK(batch(1 << 30).first == 4);
}

TEST_CASE("the memory of the compute side limits too") {
  plan::Request request = make_request(chain());
  request.limits.compute_memory = 1000;
  const plan::Problem problem = make_problem(request);
  for (const plan::Option &option : plan::CostModel(problem).options()) CHECK_FALSE(option.feasible);
}

TEST_CASE("to send and to receive bytes costs the cores of both sides, in the first epoch") {
  plan::Request request = make_request(chain(), 1e9);
  const std::vector<plan::Option> without = plan::CostModel(make_problem(request)).options();
  request.storage.host->stream = plan::StreamSpeed{1e6, 1e3};
  request.compute.host->stream = plan::StreamSpeed{1e3, 2e6};
  const std::vector<plan::Option> with = plan::CostModel(make_problem(request)).options();
  const auto both = [&](const std::string &name, const auto &check) {
    check(named(without, name).predicted, named(with, name).predicted);
  };
  both("relu1", [](const plan::Prediction &before, const plan::Prediction &after) {
    CHECK(after.storage == Approx(before.storage + after.bytes / 1e6 / 4)); // four cores
    CHECK(after.compute == Approx(before.compute + after.bytes / 2e6 / 4));
    CHECK(after.later == Approx(before.later));
  });
  both("files", [](const plan::Prediction &before, const plan::Prediction &after) {
    CHECK(after.storage == Approx(after.bytes / 1e6)); // one thread reads and sends
    CHECK(after.compute == Approx(std::max(after.bytes / 2e6, before.compute + after.bytes / 2e6 / 4)));
  });
}

TEST_CASE("training beside the storage shares its cores and needs no link") {
  plan::Request request = make_request(chain(), 1e6);
  request.storage.host->stream = plan::StreamSpeed{1, 1};
  const plan::Problem problem = make_problem(request);
  const plan::CostModel model(problem);
  const plan::Option option = model.all_in_storage();
  CHECK(option.name == "flatten");
  CHECK(option.predicted.storage == Approx(1e-3 + 6e-3 + head_seconds(8)));
  CHECK(option.predicted.link == 0);
  CHECK(option.predicted.bytes == 0);
  CHECK(option.predicted.compute == 0);
  CHECK(option.predicted.first_epoch == Approx(1000 * option.predicted.storage));
}

TEST_CASE("tensors and tokens cross as they are; without data there are no files") {
  plan::Request request = make_request(chain());
  request.storage.model->preprocess = {{"kind", "tensor"}};
  request.storage.data.reset();
  request.compute.data.reset();
  const plan::Problem problem = make_problem(request);
  const std::vector<plan::Option> options = plan::CostModel(problem).options();
  CHECK(options[0].name == "input");
  CHECK(options[0].candidate.codec == plan::Codec::fp32);
  CHECK(options[0].predicted.bytes == 4 * 3 * 64);
  CHECK(options[0].predicted.storage == 0);
}

TEST_CASE("a profile without measurement or matrix speed is refused") {
  plan::Request request = make_request(chain());
  const Graph graph = make_problem(request).graph;
  request.storage.host->blas.gflops = 0;
  CHECK_THROWS_AS(costs_of(request.storage, graph), FormatError);
  request.storage.host->blas.gflops = 1;
  request.storage.model->measured = {};
  CHECK_THROWS_AS(costs_of(request.storage, graph), FormatError);
}
