#include "plan/codecs.h"
#include "plan/observed.h"

#include "cli/error.h"
#include "support/profiles.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using namespace tl::test;
using codec::Codec;
using codec::Number;

namespace {

constexpr Codec kZstd{Number::fp32, true}, kBf16{Number::bf16, false}, kInt8{Number::int8, false},
    kInt8Zstd{Number::int8, true};

/// Every value in every codec: zstd leaves 3/4, encoding takes `encode` seconds, decoding half of that, int8
/// errs by 1 %, bf16 by 0.2 %.
plan::CodecProfile measured(const Graph &graph, double encode) {
  plan::CodecProfile profile;
  profile.records = 8;
  profile.real = true;
  for (std::size_t id = 1; id < graph.values.size(); ++id) {
    const graph::Value &value = graph.values[id];
    plan::ValueCodecs codecs{value.name, value.hash, {}};
    for (const Codec codec : codec::kCodecs) {
      if (codec.number == Number::u8) continue;
      plan::CodecCost cost;
      cost.codec = codec;
      cost.bytes = static_cast<double>(value.bytes()) * (codec.zstd ? 0.75 : 1);
      if (codec.number == Number::bf16) cost.bytes /= 2, cost.rms_error = 0.002;
      if (codec.number == Number::int8) cost.bytes /= 4, cost.rms_error = 0.01;
      if (codec != Codec::fp32) {
        cost.encode_seconds = encode;
        cost.decode_seconds = encode / 2;
      }
      codecs.codecs.push_back(cost);
    }
    profile.values.push_back(codecs);
  }
  return profile;
}

plan::Request coded_request(double bandwidth, double encode = 1e-5) {
  plan::Request request = make_request(residual(), bandwidth);
  for (plan::Profile *profile : {&request.storage, &request.compute})
    profile->model->codecs = measured(profile->model->graph, encode);
  return request;
}

std::vector<Codec> codecs_at(const plan::Plan &plan, const std::string &cut) {
  std::vector<Codec> codecs;
  for (const plan::Alternative &alternative : plan.alternatives)
    if (alternative.name == cut &&
        !std::count(alternative.chosen_by.begin(), alternative.chosen_by.end(), "storage"))
      codecs.push_back(alternative.codec);
  return codecs;
}

const plan::Alternative &at(const plan::Plan &plan, const std::string &cut, Codec codec) {
  return *std::find_if(plan.alternatives.begin(), plan.alternatives.end(), [&](const auto &alternative) {
    return alternative.name == cut && alternative.codec == codec;
  });
}

/// The last cut that crosses, by name.
std::string deepest(const plan::Plan &plan) { return plan.cache.values.at(0); }

} // namespace

TEST_CASE("codecs that change features are weighed only when they are allowed") {
  plan::Request request = coded_request(1e4);
  const plan::Plan exact = make_plan(request);
  CHECK(codecs_at(exact, deepest(exact)) == std::vector<Codec>{Codec::fp32, kZstd});
  CHECK(exact.codec.exact());
  request.codecs.allow_lossy = true;
  const plan::Plan lossy = make_plan(request);
  CHECK(codecs_at(lossy, deepest(lossy)).size() == 6);
  CHECK(lossy.codec == kInt8Zstd);
  CHECK(lossy.predicted.total < exact.predicted.total);
}

TEST_CASE("an error bound leaves out the codecs that err by more where they were measured") {
  plan::Request request = coded_request(1e3);
  for (const auto &[bound, most] :
       {std::pair{0.001, kZstd}, {0.002, Codec{Number::bf16, true}}, {0.5, kInt8Zstd}}) {
    request.codecs.max_error = bound;
    CHECK(make_plan(request).codec == most);
  }
  request.codecs.allow_lossy = true; // the bound holds all the same
  request.codecs.max_error = 0.001;
  CHECK(make_plan(request).codec == kZstd);
}

TEST_CASE("one codec can be asked for, and says what is missing") {
  plan::Request request = coded_request(1e6);
  request.codecs.only = kInt8;
  CHECK_THROWS_AS(make_plan(request), UsageError);
  request.codecs.allow_lossy = true;
  for (const char *algorithm : {"pipelined", "sum", "hapi", "freeze", "storage"}) {
    request.algorithm = algorithm;
    const plan::Plan plan = make_plan(request);
    CHECK(plan.codec == kInt8);
    for (const plan::Alternative &alternative : plan.alternatives) CHECK(alternative.codec == kInt8);
  }
  request.codecs.max_error = 0.001;
  CHECK_THROWS_AS(make_plan(request), UsageError);
  request.codecs.max_error.reset();
  request.storage.model->codecs.reset();
  CHECK_THROWS_AS(make_plan(request), UsageError);
  request.codecs.only = Codec::fp32; // needs no measurement
  CHECK(make_plan(request).codec == Codec::fp32);
  request.cut = "files";
  CHECK_THROWS_WITH_AS(make_plan(request), doctest::Contains("files cross the link as they are"), UsageError);
}

TEST_CASE("published rules choose as they do without codecs") {
  for (const double bandwidth : {1e4, 1e6, 1e9})
    for (const char *algorithm : {"sum", "hapi", "earliest", "freeze", "storage", "none"}) {
      plan::Request with = coded_request(bandwidth), without = make_request(residual(), bandwidth);
      with.algorithm = without.algorithm = algorithm;
      const plan::Plan a = make_plan(with), b = make_plan(without);
      CHECK(a.cut_name() == b.cut_name());
      CHECK(a.codec == b.codec);
      CHECK(a.predicted.total == b.predicted.total);
    }
}

TEST_CASE("a cut is forced in its fastest codec") {
  plan::Request request = coded_request(1e3);
  request.cut = deepest(make_plan(request));
  CHECK(make_plan(request).codec == kZstd);
  for (plan::Profile *profile : {&request.storage, &request.compute})
    profile->model->codecs = measured(profile->model->graph, 100);
  CHECK(make_plan(request).codec == Codec::fp32);
}

TEST_CASE("bytes, encoding and decoding count where they belong") {
  plan::Request request = coded_request(1e4, 1e-3);
  request.codecs.allow_lossy = true;
  const plan::Plan plan = make_plan(request);
  const std::string cut = deepest(plan);
  int busy = 0;
  for (const plan::Alternative &alternative : plan.alternatives) {
    if (alternative.codec != kInt8Zstd || alternative.name.find('+') != std::string::npos) continue;
    const plan::Prediction &coded = alternative.predicted;
    const plan::Prediction &plain = at(plan, alternative.name, Codec::fp32).predicted;
    CHECK(coded.bytes == doctest::Approx(plain.bytes * 0.75 / 4));
    CHECK(coded.link == doctest::Approx(plain.link * 0.75 / 4));
    CHECK(coded.storage == doctest::Approx(std::max(1e-3, plain.storage + 1e-3 / 4))); // on four cores
    CHECK(coded.compute == doctest::Approx(std::max(0.5e-3, plain.compute + 0.5e-3 / 4)));
    busy += plain.compute > 1e-3;
  }
  CHECK(busy > 0);
  // A single thread encodes and decodes, whatever the cores.
  const plan::Plan slow = make_plan([] {
    plan::Request r = coded_request(1e4, 10);
    r.codecs.allow_lossy = true;
    return r;
  }());
  CHECK(at(slow, cut, kInt8).predicted.storage == doctest::Approx(10));
  CHECK(at(slow, cut, kInt8).predicted.compute == doctest::Approx(5));
}

TEST_CASE("codecs take as much longer as the side that runs them has become slower") {
  plan::Problem problem;
  problem.storage_model.codecs = measured(residual(), 1e-3);
  problem.compute_model.codecs = measured(residual(), 1e-3);
  apply(plan::Drift{3, 1, 2}, problem);
  const auto bf16 = [](const plan::ModelProfile &model) {
    for (const plan::CodecCost &cost : model.codecs->values.at(0).codecs)
      if (cost.codec == kBf16) return cost;
    return plan::CodecCost{};
  };
  CHECK(bf16(problem.storage_model).encode_seconds == doctest::Approx(3e-3));
  CHECK(bf16(problem.compute_model).decode_seconds == doctest::Approx(1e-3));
}

TEST_CASE("a cut of several values crosses only in codecs that were measured for all of them") {
  plan::Request request = coded_request(1e6);
  request.codecs.allow_lossy = true;
  const plan::Plan all = make_plan(request);
  const auto several =
      std::find_if(all.alternatives.begin(), all.alternatives.end(),
                   [](const auto &alternative) { return alternative.name.find('+') != std::string::npos; });
  REQUIRE(several != all.alternatives.end());
  const std::string second = several->name.substr(several->name.find('+') + 1);
  CHECK(codecs_at(all, several->name).size() == 6);
  auto &values = request.storage.model->codecs->values;
  values.erase(
      std::remove_if(values.begin(), values.end(), [&](const auto &value) { return value.name == second; }),
      values.end());
  CHECK(codecs_at(make_plan(request), several->name) == std::vector<Codec>{Codec::fp32});
}

TEST_CASE("without a measurement on the compute side, the storage side's times hold") {
  plan::Request with = coded_request(1e5), without = with;
  without.compute.model->codecs.reset();
  CHECK(make_plan(with).predicted.total == make_plan(without).predicted.total);
}

TEST_CASE("plans and profiles name codecs, and compression changes no identity") {
  plan::Request request = coded_request(1e4);
  request.codecs.allow_lossy = true;
  plan::Plan plan = make_plan(request);
  for (const Codec codec : codec::kCodecs) {
    plan.codec = codec;
    CHECK(plan::plan_from_json(to_json(plan), "plan").codec == codec);
    plan::Plan plain = plan;
    plain.codec.zstd = false;
    CHECK(plain.digest() == plan.digest());
  }
  plan::Plan other = plan;
  plan.codec = kBf16;
  other.codec = kInt8;
  CHECK(plan.digest() != other.digest());

  const plan::Profile &profile = request.storage;
  const json::Value document = to_json(profile);
  const plan::Profile read = plan::profile_from_json(document, "profile");
  CHECK(to_json(read) == document);
  CHECK(read.model->codecs->values.size() == profile.model->codecs->values.size());
  json::Value bad = document;
  bad["model"]["codecs"]["values"][0]["codecs"][0]["codec"] = "fp16";
  CHECK_THROWS_AS(plan::profile_from_json(bad, "profile"), FormatError);
}
