#include "plan/planner.h"

#include "cli/error.h"
#include "graph/cut.h"
#include "support/profiles.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <sstream>

using namespace tl;
using namespace tl::test;

namespace {

template <class Exception> void refused(const plan::Request &request, const char *why) {
  CHECK_THROWS_WITH_AS(plan::make_plan(request), doctest::Contains(why), Exception);
}

} // namespace

TEST_CASE("a plan says all that the two sides need") {
  plan::Request request = make_request(residual(), 1e4);
  request.scheme.train = "^layer2";
  request.seed = 7;
  request.compute.model->path = "here.pt";
  request.storage.model->path = "/there.pt";
  request.algorithm = "freeze";
  const plan::Plan plan = plan::make_plan(request);
  CHECK(plan.model_path == "here.pt");
  CHECK(plan.storage_model_path == "/there.pt");
  CHECK(plan.model_digest == plan::parameters_digest(residual()));
  CHECK(plan.input_shape == Shape{3, 8, 8});
  CHECK(plan.classes == 5);
  CHECK(plan.preprocess == request.storage.model->preprocess);
  CHECK(plan.kind == plan::CutKind::values);
  REQUIRE(plan.values.size() == 1);
  CHECK(plan.values[0].name == "layer1");
  CHECK(plan.values[0].shape == Shape{4, 8, 8});
  const Graph graph = residual();
  CHECK(plan.values[0].hash == graph.values[static_cast<std::size_t>(graph.find("layer1"))].hash);
  CHECK(plan.seed == 7);
  CHECK(plan.shuffle);
  CHECK(plan.cache.memory == request.compute.host->memory_bytes / 2);
  CHECK(plan.cache.values == std::vector<std::string>{"layer1"});
  CHECK(plan.cache.bytes_per_record == 4 * 4 * 64);
  CHECK(plan.train_on == plan::Side::compute);
  CHECK(plan.algorithm == "freeze");
}

TEST_CASE("each side runs its layers as was the fastest there") {
  plan::Request request = make_request(residual(), 1e4);
  request.storage.model->measured.execution = graph::Execution::bf16;
  request.compute.model->measured.execution = graph::Execution::channels_last;
  request.cut = "layer1";
  const plan::Plan rounded = plan::make_plan(request);
  CHECK(rounded.storage_execution == graph::Execution::bf16);
  CHECK(rounded.compute_execution == graph::Execution::channels_last);
  const plan::Plan again = plan::plan_from_json(plan::to_json(rounded), "x");
  CHECK(again.storage_execution == rounded.storage_execution);
  CHECK(again.compute_execution == rounded.compute_execution);

  // Features that are rounded are others; those of an exact way are the same.
  request.storage.model->measured.execution = graph::Execution::channels_last;
  const plan::Plan exact = plan::make_plan(request);
  CHECK(exact.digest() != rounded.digest());
  request.storage.model->measured.execution = graph::Execution::blocked;
  CHECK(plan::make_plan(request).digest() == exact.digest());

  // No layer runs there.
  request.storage.model->measured.execution = graph::Execution::bf16;
  for (const char *cut : {"input", "files"}) {
    request.cut = cut;
    CHECK(plan::make_plan(request).storage_execution == graph::Execution::blocked);
  }
}

TEST_CASE("every algorithm's choice is marked, and asking for it gives it") {
  for (const Graph &graph : {chain(), residual(), dense(), transformer(false)}) {
    plan::Request request = make_request(graph, 2e5);
    std::map<std::string, std::string> marked;
    for (const plan::Alternative &alternative : plan::make_plan(request).alternatives)
      for (const std::string &algorithm : alternative.chosen_by)
        CHECK(marked.emplace(algorithm, alternative.name).second);
    CHECK(marked.size() == plan::algorithms().size());
    for (const plan::Algorithm &algorithm : plan::algorithms()) {
      request.algorithm = algorithm.name;
      const plan::Plan plan = plan::make_plan(request);
      CHECK(plan.cut_name() == marked[algorithm.name]);
      CHECK(plan.algorithm == algorithm.name);
      json::validate(plan::to_json(plan), "plan", "plan");
    }
  }
}

TEST_CASE("a cut can be forced") {
  plan::Request request = make_request(residual());
  for (const std::string cut :
       {"files", "input", "layer1", "layer1+layer2.conv2", "layer2.conv2+layer1", "flatten"}) {
    request.cut = cut;
    const plan::Plan plan = plan::make_plan(request);
    CHECK(plan.algorithm == "cut");
    CHECK(plan.cut_name() == (cut == "layer2.conv2+layer1" ? "layer1+layer2.conv2" : cut));
    CHECK((plan.codec == plan::Codec::u8) == (cut == "input"));
  }
  request.cut = "layer1.conv1";
  refused<UsageError>(request, "does not separate");
  request.cut = "head.0";
  refused<UsageError>(request, "depends on parameters that are trained");
  request.cut = "files";
  request.storage.data->classes = 0;
  request.classes = 3;
  CHECK(plan::make_plan(request).classes == 3);
  request.workload.records = 10;
  request.storage.data.reset();
  refused<UsageError>(request, "tl-profile data");
}

TEST_CASE("when everything is trained, normalised pixels are cached and every cut is the input") {
  plan::Request request = make_request(chain());
  request.scheme.train = ".";
  request.algorithm = "freeze";
  const plan::Plan plan = plan::make_plan(request);
  CHECK(plan.cut_name() == "input");
  CHECK(plan.cache.values == std::vector<std::string>{"input"});
  CHECK(plan.cache.bytes_per_record == 4 * 3 * 64);
}

TEST_CASE("profiles of different things are refused") {
  plan::Request request = make_request(chain());
  request.compute.model->graph.parameters[0].content = hash_text("other");
  refused<FormatError>(request, "there.json and here.json: profiles of different models");
  request = make_request(chain());
  graph::compute_hashes(request.compute.model->graph, hash_text("other preprocessing"));
  refused<FormatError>(request, "different preprocessing");
  request = make_request(chain());
  request.compute.model->graph.nodes[1].op = "aten::tanh";
  graph::compute_hashes(request.compute.model->graph, hash_text("preprocessing"));
  refused<FormatError>(request, "same weights but compute something different");
}

TEST_CASE("what is missing is named, with the program that measures it") {
  plan::Request request = make_request(chain());
  request.storage.host.reset();
  refused<Error>(request, "there.json: has no host section");
  request = make_request(chain());
  request.compute.model.reset();
  refused<Error>(request, "here.json: has no model section");
  request = make_request(chain());
  request.storage.model->measured.batches.clear();
  refused<Error>(request, "was not timed");
  request = make_request(chain());
  request.storage.data.reset();
  refused<UsageError>(request, "--classes");
  request.classes = 5;
  refused<UsageError>(request, "--records");
  request.workload.records = 10;
  CHECK(plan::make_plan(request).cut_name() != "files");
  request.workload.epochs = 0;
  refused<UsageError>(request, "at least 1");
  request = make_request(chain(), 0);
  refused<UsageError>(request, "no bandwidth");
  request = make_request(chain());
  request.algorithm = "hapy";
  refused<UsageError>(request, "did you mean 'hapi'?");
}

TEST_CASE("the table has a line for each alternative and marks the chosen one once") {
  plan::Request request = make_request(residual(), 1e5);
  for (const std::string algorithm : {"pipelined", "storage", "none", "freeze"}) {
    request.algorithm = algorithm;
    const plan::Plan plan = plan::make_plan(request);
    std::istringstream text(plan::explain(plan));
    std::vector<std::string> lines, marked;
    for (std::string line; std::getline(text, line);) {
      lines.push_back(line);
      if (line[0] == '*') marked.push_back(line);
    }
    CHECK(lines.size() == plan.alternatives.size() + 2);
    REQUIRE(marked.size() == 1);
    CHECK(marked[0].find(algorithm) != std::string::npos);
    CHECK(marked[0].find(plan.cut_name()) != std::string::npos);
    CHECK(lines.back().find("total") != std::string::npos);
  }
  request.limits.storage_memory = 0;
  request.algorithm = "none";
  CHECK(plan::explain(plan::make_plan(request)).find("memory!") != std::string::npos);
}

TEST_CASE("extreme measurements give a plan that validates, never a crash") {
  for (const double seconds : {0.0, 1e-300, 1e8}) {
    plan::Request request = make_request(residual());
    request.storage = make_profile(
        residual(), [&](int) { return seconds; }, "there.json");
    for (const double bandwidth : {1e-3, 1e18}) {
      request.link.bandwidth = bandwidth;
      const plan::Plan plan = plan::make_plan(request);
      CHECK(std::isfinite(plan.predicted.total));
      CHECK_FALSE(plan::explain(plan).empty());
    }
  }
}
