#include "cli/error.h"
#include "plan/link.h"
#include "plan/planner.h"
#include "support/files.h"
#include "support/mutate.h"
#include "support/profiles.h"

#include <doctest/doctest.h>

#include <set>

using namespace tl;
using namespace tl::test;

namespace {

plan::Profile full_profile() {
  plan::Profile profile = make_profile(
      transformer(true), [](int n) { return 1e-3 * n; }, "p");
  profile.link = plan::LinkProfile{1e7, 0.001, "ssh storage"};
  profile.model->measured.execution = graph::Execution::bf16;
  profile.model->measured.executions = {{graph::Execution::blocked, 2e-3, 0},
                                        {graph::Execution::bf16, 1e-3, 4e-3}};
  return profile;
}

plan::Plan full_plan() {
  plan::Request request = make_request(residual());
  request.scheme.head = graph::Head::parse("mlp:8");
  request.scheme.train = "^layer2";
  request.scheme.features = "layer2";
  request.cut = "layer1";
  return plan::make_plan(request);
}

/// Everything that `read` accepts of the damaged documents, by what was done to them; what it
/// refuses, it must refuse in one line.
template <class Read> std::set<std::string> accepted(const json::Value &document, Read read) {
  std::set<std::string> result;
  for (const Mutation &mutation : mutations(document)) {
    CAPTURE(mutation.what);
    try {
      read(mutation.document);
      result.insert(mutation.what);
    } catch (const FormatError &error) {
      const std::string message = error.what();
      CHECK(message.rfind("origin: ", 0) == 0);
      CHECK(message.find('\n') == std::string::npos);
    }
  }
  return result;
}

} // namespace

TEST_CASE("a profile survives JSON, each section alone too") {
  const plan::Profile profile = full_profile();
  const json::Value document = plan::to_json(profile);
  const plan::Profile again = plan::profile_from_json(json::parse(json::pretty(document), "x"), "x");
  CHECK(plan::to_json(again) == document);
  CHECK(again.origin == "x");
  for (const char *section : {"host", "model", "data", "link"}) {
    json::Value alone = {{"format", "tl-profile"}, {"version", 1}, {section, document[section]}};
    CHECK(plan::to_json(plan::profile_from_json(alone, "x")) == alone);
  }
  plan::profile_from_json({{"format", "tl-profile"}, {"version", 1}}, "x");

  const TempFolder folder;
  CHECK(plan::to_json(plan::load_profile(folder.write("p.json", json::pretty(document)))) == document);
  CHECK_THROWS_AS(plan::load_profile(folder.write("cut.json", json::pretty(document).substr(0, 500))),
                  FormatError);
  CHECK_THROWS_AS(plan::load_profile(folder.path("none.json")), Error);
}

TEST_CASE("a profile with any field of another type, missing, or unknown is refused") {
  const json::Value document = plan::to_json(full_profile());
  const std::set<std::string> optional = {"remove /host",
                                          "remove /model",
                                          "remove /data",
                                          "remove /link",
                                          "remove /host/bf16",
                                          "remove /link/command",
                                          "remove /model/measured/execution",
                                          "remove /model/measured/executions"};
  for (const std::string &what :
       accepted(document, [](const json::Value &d) { plan::profile_from_json(d, "origin"); })) {
    CAPTURE(what);
    const bool fine = optional.count(what) || what.rfind("remove /model/preprocess/", 0) == 0 ||
                      what.find("/train_seconds") != std::string::npos ||
                      what.find("/suffix_seconds") != std::string::npos ||
                      what.rfind("remove /model/graph/", 0) == 0;
    CHECK(fine);
    CHECK(what.rfind("remove ", 0) == 0);
  }
}

TEST_CASE("a profile that contradicts itself is refused with its place") {
  const auto refused = [](auto change, const char *why) {
    json::Value document = plan::to_json(full_profile());
    change(document);
    CHECK_THROWS_WITH_AS(plan::profile_from_json(document, "p.json"), doctest::Contains(why), FormatError);
  };
  const auto measured = [](json::Value &d) -> json::Value & { return d["model"]["measured"]; };
  refused([&](auto &d) { measured(d)["batches"] = {1, 4, 4}; }, "p.json: /model/measured/batches");
  refused([&](auto &d) { measured(d)["batches"] = {1, 4}; }, "/whole_seconds: 3 numbers for 2 batch sizes");
  refused([&](auto &d) { measured(d)["segments"][2]["seconds"] = {1.0}; },
          "/segments/2/seconds: 1 numbers for 3");
  refused([&](auto &d) { measured(d)["segments"][2]["peak_bytes"] = json::Value::array(); },
          "/segments/2/peak_bytes");
  refused(
      [&](auto &d) {
        measured(d)["segments"][2]["train_seconds"] = {1, 2};
      },
      "/segments/2/train_seconds");
  refused([&](auto &d) { measured(d)["segments"][2]["suffix_seconds"] = {1.0}; },
          "/segments/2/suffix_seconds");
  refused([&](auto &d) { measured(d)["segments"][2]["last"] = 2; }, "/segments/2: nodes [2, 2) are empty");
  refused([&](auto &d) { measured(d)["segments"][2]["first"] = 1; }, "/segments/2: nodes [1, 3)");
  refused([&](auto &d) { measured(d)["segments"].back()["last"] = 99; },
          ", 99) are empty, out of order, or not");
  refused([&](auto &d) { measured(d)["segments"][0]["seconds"][0] = -1; },
          "/model/measured/segments/0/seconds");
  refused([](auto &d) { d["model"]["graph"]["nodes"][0]["outputs"] = {99}; }, "p.json: /model: graph: ");
  refused([](auto &d) { d["link"]["bandwidth_bytes_per_s"] = 0; }, "/link/bandwidth_bytes_per_s");
  refused([](auto &d) { d["host"]["cores"] = 0; }, "/host/cores");
  refused([](auto &d) { d["host"]["cores"] = 1.5; }, "/host/cores");
  refused([](auto &d) { d["host"]["cores"] = 1e30; }, "/host/cores");
  refused([](auto &d) { d["model"]["file_digest"] = "abc"; }, "/model/file_digest");
  refused([](auto &d) { d["format"] = "tl-plan"; }, "this is a tl-plan document");
  refused([](auto &d) { d["version"] = 2; }, "written by a newer tl-tools");
}

TEST_CASE("a plan survives JSON") {
  const plan::Plan plan = full_plan();
  const json::Value document = plan::to_json(plan);
  const plan::Plan again = plan::plan_from_json(json::parse(json::pretty(document), "x"), "x");
  CHECK(plan::to_json(again) == document);
  CHECK(again.digest() == plan.digest());
  CHECK(again.cut_name() == "layer1");
  CHECK(again.scheme.head->text() == "mlp:8");
  CHECK(again.input_shape == Shape{3, 8, 8});
  const TempFolder folder;
  CHECK(plan::load_plan(folder.write("plan.json", json::compact(document))).digest() == plan.digest());

  plan::Request files = make_request(residual());
  files.cut = "files";
  const plan::Plan raw = plan::make_plan(files);
  CHECK(raw.values.empty());
  CHECK(raw.cut_name() == "files");
  CHECK(plan::to_json(plan::plan_from_json(plan::to_json(raw), "x")) == plan::to_json(raw));
}

TEST_CASE("a plan with any field of another type, missing, or unknown is refused") {
  const json::Value document = plan::to_json(full_plan());
  for (const std::string &what :
       accepted(document, [](const json::Value &d) { plan::plan_from_json(d, "origin"); })) {
    CAPTURE(what);
    const bool fine = what.rfind("remove /scheme/", 0) == 0 || what.rfind("remove /preprocess/", 0) == 0 ||
                      what == "remove /execution";
    CHECK(fine);
  }
}

TEST_CASE("a plan whose cut was edited is refused") {
  const auto refused = [](auto change, const char *why) {
    json::Value document = plan::to_json(full_plan());
    change(document);
    CHECK_THROWS_WITH_AS(plan::plan_from_json(document, "p"), doctest::Contains(why), FormatError);
  };
  refused([](auto &d) { d["cut"]["values"][0]["name"] = "layer2"; }, "/digest");
  refused([](auto &d) { d["cut"]["values"][0]["shape"] = {1, 2}; }, "/digest");
  refused([](auto &d) { d["cut"]["values"][0]["hash"] = std::string(32, '0'); }, "/digest");
  refused([](auto &d) { d["codec"] = "u8"; }, "/digest");
  refused([](auto &d) { d["digest"] = std::string(32, '0'); }, "/digest");
  refused([](auto &d) { d["cut"]["kind"] = "files"; }, "/cut/values");
  refused([](auto &d) { d["cut"]["values"] = json::Value::array(); }, "/cut/values");
  refused([](auto &d) { d["cut"]["values"][0]["shape"] = {1LL << 40, 1LL << 40}; }, "shape");
}

TEST_CASE("the digest of a plan depends on what decides the features, and on nothing else") {
  const plan::Plan plan = full_plan();
  const auto digest = [&](auto change) {
    plan::Plan other = plan;
    change(other);
    return other.digest();
  };
  CHECK(digest([](auto &p) { p.batch = 99; }) == plan.digest());
  CHECK(digest([](auto &p) {
          p.shuffle = false;
          p.seed = 7;
        }) == plan.digest());
  CHECK(digest([](auto &p) {
          p.scheme.train = "x";
          p.classes = 3;
          p.algorithm = "none";
        }) == plan.digest());
  CHECK(digest([](auto &p) { p.model_path = p.storage_model_path = "elsewhere.pt"; }) == plan.digest());
  CHECK(digest([](auto &p) {
          p.alternatives.clear();
          p.predicted = {};
          p.cache.memory += 1;
        }) == plan.digest());
  CHECK(digest([](auto &p) { p.values[0].hash = {}; }) != plan.digest());
  CHECK(digest([](auto &p) { p.values[0].dtype = DType::f64; }) != plan.digest());
  CHECK(digest([](auto &p) { p.values.push_back(p.values[0]); }) != plan.digest());
  CHECK(digest([](auto &p) { p.codec = plan::Codec::u8; }) != plan.digest());
  // Another preprocessing gives the values another hash.
  plan::Request request = make_request(residual());
  request.cut = "layer1";
  const Digest before = plan::make_plan(request).digest();
  for (plan::Profile *profile : {&request.storage, &request.compute})
    graph::compute_hashes(profile->model->graph, hash_text("other preprocessing"));
  CHECK(plan::make_plan(request).digest() != before);
}

TEST_CASE("the digest of the parameters does not depend on their order") {
  std::mt19937 random(6);
  Graph graph = residual();
  const Digest digest = plan::parameters_digest(graph);
  std::reverse(graph.parameters.begin(), graph.parameters.end());
  CHECK(plan::parameters_digest(graph) == digest);
  graph.parameters.push_back(
      {"new", {}, DType::f32, {2}, false, true, true, false, {}}); // fresh: not pretrained
  CHECK(plan::parameters_digest(graph) == digest);
  graph.parameters[0].content = hash_text("changed");
  CHECK(plan::parameters_digest(graph) != digest);
}
