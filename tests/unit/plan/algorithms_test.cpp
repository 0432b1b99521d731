#include "plan/algorithms.h"

#include "cli/error.h"
#include "support/profiles.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace tl;
using namespace tl::test;

namespace {

struct Case {
  plan::Problem problem;
  plan::CostModel model;
  std::vector<plan::Option> options;

  explicit Case(const plan::Request &request)
      : problem(make_problem(request)), model(problem), options(model.options()) {}
  Case(const Case &) = delete;

  plan::Choice choose(const std::string &algorithm) const {
    return plan::find_algorithm(algorithm).choose(model, options);
  }
  std::string name(const std::string &algorithm) const { return choose(algorithm).option.name; }
};

/// A request with random costs, link, epochs, cache and memory.
plan::Request random_request(std::mt19937 &random) {
  const auto between = [&](double low, double high) { // log-uniform
    return low * std::pow(high / low, static_cast<double>(random() % 10001) / 10000);
  };
  const std::vector<Graph> graphs = {chain(), residual(), dense(), transformer(true)};
  const Graph &graph = graphs[random() % graphs.size()];
  plan::Request request = make_request(graph, between(1e4, 1e8));
  std::vector<double> there(graph.nodes.size()), here(graph.nodes.size());
  for (double &s : there) s = between(1e-5, 1e-2);
  for (double &s : here) s = between(1e-5, 1e-2);
  request.storage = make_profile(
      graph, [&](int n) { return there[static_cast<std::size_t>(n)]; }, "there");
  request.compute = make_profile(
      graph, [&](int n) { return here[static_cast<std::size_t>(n)]; }, "here");
  request.storage.data->bytes_per_record = between(100, 1e5);
  request.link.round_trip = between(1e-4, 1);
  request.workload.epochs = 1 + static_cast<std::int64_t>(random() % 20);
  request.workload.records = 1 + static_cast<std::int64_t>(random() % 5000);
  if (random() % 2) request.limits.cache_bytes = 0;
  if (random() % 3 == 0) request.limits.storage_memory = static_cast<std::int64_t>(between(1000, 1e5));
  return request;
}

} // namespace

TEST_CASE("pipelined is the best of all that fit, by the formula written out") {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    const plan::Request request = random_request(random);
    const Case c(request);
    const plan::Choice choice = c.choose("pipelined");
    CHECK(choice.option.feasible);
    const auto records = static_cast<double>(request.workload.records);
    const auto epochs = static_cast<double>(request.workload.epochs);
    for (const plan::Option &option : c.options) {
      if (!option.feasible) continue;
      const plan::Prediction &p = option.predicted;
      const double slowest = std::max({p.storage, p.link, p.compute});
      const double first = std::min(static_cast<double>(option.batch), records);
      const double epoch =
          records * slowest + request.link.round_trip + first * (p.storage + p.link + p.compute - slowest);
      const double total = epoch + (epochs - 1) * records * p.later;
      CHECK(p.total == doctest::Approx(total));
      CHECK(choice.option.predicted.total <= p.total);
    }
  }
}

TEST_CASE("sum is the best without overlap") {
  std::mt19937 random(9);
  int different = 0;
  for (int round = 0; round < 200; ++round) {
    const Case c(random_request(random));
    const auto cost = [&](const plan::Option &option) {
      const plan::Prediction &p = option.predicted;
      const double first = p.storage + p.link + p.compute;
      return first + static_cast<double>(c.problem.workload.epochs - 1) * p.later;
    };
    const plan::Option chosen = c.choose("sum").option;
    for (const plan::Option &option : c.options)
      if (option.feasible) CHECK(cost(chosen) <= cost(option) * (1 + 1e-12));
    different += chosen.name != c.name("pipelined");
  }
  CHECK(different > 10); // it is another rule
}

TEST_CASE("hapi is the best of its estimate, or no pushdown") {
  std::mt19937 random(10);
  int files = 0;
  for (int round = 0; round < 200; ++round) {
    const Case c(random_request(random));
    const auto epoch = [&](const plan::Option &option) {
      const plan::Prediction &p = option.predicted;
      const double batch = 32,
                   iterations = std::ceil(static_cast<double>(c.problem.workload.records) / batch);
      // 32 is a multiple of each measured batch, so the waves are whole.
      const double stream = batch * (p.storage + p.link), compute = batch * p.compute;
      return stream + (std::max(stream, compute) + c.problem.link.round_trip) * (iterations - 1) +
             c.problem.link.round_trip + compute;
    };
    const plan::Option chosen = c.choose("hapi").option;
    CHECK(chosen.name != "input");
    for (const plan::Option &option : c.options)
      if (option.feasible && option.name != "input") CHECK(epoch(chosen) <= epoch(option) * (1 + 1e-12));
    files += chosen.name == "files";
  }
  CHECK(files > 10);
  CHECK(files < 190);
}

TEST_CASE("hapi screens out what does not fit the compute side") {
  plan::Request request = make_request(chain(), 1e9);
  for (int n = 0; n < 3; ++n) // the first nodes need much memory, so they must be pushed down
    request.compute.model->measured.segments[static_cast<std::size_t>(n)].peak_bytes = {1 << 20, 4 << 20,
                                                                                        16 << 20};
  request.storage = make_profile(
      chain(), [](int) { return 1.0; }, "there"); // which is slow
  CHECK(Case(request).name("hapi") == "files");
  request.limits.compute_memory = 1 << 20;
  CHECK(Case(request).name("hapi") == "conv2");
  CHECK(Case(request).name("pipelined") == "conv2");
}

TEST_CASE("earliest takes the first cut that is small enough, else the freeze layer") {
  // Shrinking chain: the input has 768 bytes, conv1 and relu1 1024, conv2 and relu2 512, avgpool 32.
  plan::Request request = make_request(chain(), 1e9);
  for (plan::Segment &segment : request.storage.model->measured.segments) segment.peak_bytes = {10, 40, 160};
  for (plan::Segment &segment : request.compute.model->measured.segments)
    for (std::int64_t &bytes : segment.peak_bytes) bytes *= 7 - segment.last; // less and less memory
  CHECK(Case(request).name("earliest") == "conv2");
  request.link.bandwidth = 100.0 * 512; // a hundred batches (of one) do not cross within a second
  CHECK(Case(request).name("earliest") == "avgpool");
  request.link.bandwidth = 1; // nothing does
  CHECK(Case(request).name("earliest") == "flatten");
  // No cut lowers the memory of both sides together when the prefix needs much of it.
  request.link.bandwidth = 1e9;
  for (plan::Segment &segment : request.storage.model->measured.segments)
    segment.peak_bytes = {1 << 20, 4 << 20, 16 << 20};
  CHECK(Case(request).name("earliest") == "flatten");
}

TEST_CASE("the simple rules") {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    plan::Request request = random_request(random);
    request.limits.storage_memory = -1;
    const Case c(request);
    CHECK(c.name("freeze") == c.options.back().name);
    CHECK(c.choose("freeze").train_on == plan::Side::compute);
    CHECK(c.name("none") == "files");
    CHECK(c.name("storage") == c.options.back().name);
    CHECK(c.choose("storage").train_on == plan::Side::storage);
    CHECK(c.choose("storage").option.predicted.link == 0);
  }
}

TEST_CASE("the bottleneck decides: slow link, slow storage, slow compute") {
  const Graph graph = chain();
  plan::Request request = make_request(graph, 1e3); // 1 kB/s: the smallest cut
  CHECK(Case(request).name("pipelined") == "avgpool");
  request = make_request(graph, 1e9);
  request.storage = make_profile(
      graph, [](int) { return 1.0; }, "there"); // slow storage: no pushdown
  CHECK(Case(request).name("pipelined") == "input");
  request.storage.data->decode_seconds = 10; // slow at decoding too
  CHECK(Case(request).name("pipelined") == "files");
  request = make_request(graph, 1e9);
  request.compute = make_profile(
      graph, [](int) { return 1.0; }, "here"); // slow compute: everything
  CHECK(Case(request).name("pipelined") == "flatten");
}

TEST_CASE("nothing that fits is an error that names the options to change") {
  plan::Request request = make_request(chain());
  request.limits.compute_memory = 0;
  const Case c(request);
  for (const char *algorithm : {"pipelined", "sum", "hapi", "earliest", "freeze", "none"})
    CHECK_THROWS_WITH_AS(c.choose(algorithm), doctest::Contains("--compute-memory"), Error);
  request.limits.compute_memory = -1;
  request.limits.storage_memory = 0;
  const Case s(request);
  CHECK(s.name("pipelined") == "files"); // needs no memory there
  CHECK_THROWS_WITH_AS(s.choose("freeze"), doctest::Contains("--memory"), Error);
  CHECK_THROWS_WITH_AS(s.choose("storage"), doctest::Contains("--memory"), Error);
  request = make_request(chain());
  request.storage.data.reset();
  const Case d(request);
  CHECK_THROWS_WITH_AS(d.choose("none"), doctest::Contains("tl-profile data"), Error);
}

TEST_CASE("algorithms are found by name") {
  CHECK(plan::algorithms().front().name == "pipelined");
  for (const plan::Algorithm &algorithm : plan::algorithms()) {
    CHECK(plan::find_algorithm(algorithm.name).name == algorithm.name);
    CHECK_FALSE(algorithm.summary.empty());
  }
  CHECK_THROWS_WITH_AS(plan::find_algorithm("pipeline"), doctest::Contains("did you mean 'pipelined'?"),
                       UsageError);
  CHECK_THROWS_WITH_AS(plan::find_algorithm("xyz"), doctest::Contains("use one of: pipelined, sum"),
                       UsageError);
}
