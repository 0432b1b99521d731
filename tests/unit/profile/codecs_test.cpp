// What is measured of codecs: complete, and what the codecs promise.
#include "cli/error.h"
#include "graph/cut.h"
#include "profile/codecs.h"
#include "support/extraction.h"

#include <doctest/doctest.h>

#include <map>

using namespace tl;
using codec::Codec;
using codec::Number;

namespace {

struct Fixture {
  test::TempFolder folder;
  test::Photos photos;
  model::Model net = test::load_small(test::save(test::conv_net(), folder.path("net.pt")));
  profile::CodecOptions patient;

  Fixture() {
    for (int i = 0; i < 5; ++i) photos.add("cat/" + std::to_string(i) + ".ppm", static_cast<unsigned>(i));
    patient.seconds = 100;
  }

  profile::MeasuredCodecs measure(bool with_data, const profile::CodecOptions &options) const {
    std::optional<data::Dataset> dataset;
    if (with_data) dataset = data::Dataset::open(photos.root());
    return profile::measure_codecs(net, test::small_pictures(), dataset, options);
  }

  const graph::Value &value(const Digest &hash) const {
    for (const graph::Value &value : net.graph.values)
      if (value.hash == hash) return value;
    FAIL("no such value");
    return net.graph.values[0];
  }
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "every value of every cut is measured in every codec that fits it") {
  photos.add_damaged("cat/0damaged.ppm");
  for (const bool with_data : {true, false}) {
    const profile::MeasuredCodecs measured = measure(with_data, patient);
    CHECK(measured.notes.empty());
    CHECK(measured.profile.real == with_data);
    CHECK(measured.profile.records == (with_data ? 5 : 8));
    std::map<Digest, const plan::ValueCodecs *> found;
    for (const plan::ValueCodecs &codecs : measured.profile.values) found[codecs.hash] = &codecs;
    for (const graph::Cut &cut :
         graph::enumerate_cuts(net.graph, std::vector<bool>(net.graph.values.size(), true)))
      for (const graph::ValueId id : cut.values) {
        const auto at = found.find(net.graph.values[static_cast<std::size_t>(id)].hash);
        CHECK((at != found.end()) == (id != 0 || with_data)); // random numbers are no pixels
        if (at != found.end()) CHECK(at->second->codecs.size() == (id == 0 ? 2 : 6));
      }
  }
}

TEST_CASE_FIXTURE(Fixture, "bytes and errors are those of the codecs") {
  const plan::CodecProfile profile = measure(true, patient).profile;
  for (const plan::ValueCodecs &codecs : profile.values) {
    const auto plain = static_cast<double>(value(codecs.hash).bytes());
    const bool pixels = codecs.name == "input";
    for (const plan::CodecCost &cost : codecs.codecs) {
      CAPTURE(codecs.name);
      CAPTURE(name_of(cost.codec));
      CHECK(pixels == (cost.codec.number == Number::u8));
      CHECK(cost.encode_seconds >= 0);
      CHECK(cost.decode_seconds >= 0);
      if (cost.codec == Codec::fp32) CHECK(cost.bytes == plain);
      if (cost.codec == Codec::u8) CHECK(cost.bytes == plain / 4);
      if (cost.codec == Codec{Number::bf16, false}) CHECK(cost.bytes == plain / 2);
      if (cost.codec == Codec{Number::int8, false}) CHECK(cost.bytes > plain / 4);
      if (cost.codec.zstd) CHECK(cost.bytes > 0);
      if (cost.codec.exact()) {
        CHECK(cost.rms_error == 0);
        CHECK(cost.max_error == 0);
      } else {
        CHECK(cost.rms_error > 0);
        CHECK(cost.max_error > 0);
        CHECK(cost.max_error <= (cost.codec.number == Number::bf16 ? 1.0 / 256 : 0.501 / 127));
      }
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "time that is up leaves large values unmeasured, and says so") {
  profile::CodecOptions hasty;
  hasty.seconds = 0;
  hasty.records = 2;
  const profile::MeasuredCodecs measured = measure(true, hasty);
  CHECK(measured.profile.records == 2);
  REQUIRE(measured.profile.values.size() == 1);
  for (const graph::Cut &cut :
       graph::enumerate_cuts(net.graph, std::vector<bool>(net.graph.values.size(), true)))
    for (const graph::ValueId id : cut.values)
      CHECK(value(measured.profile.values[0].hash).bytes() <=
            net.graph.values[static_cast<std::size_t>(id)].bytes());
  REQUIRE(measured.notes.size() == 1);
  CHECK(measured.notes[0].find("left out") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a data set without a sound record cannot be measured on") {
  const test::Photos damaged;
  damaged.add_damaged("cat/0.ppm");
  const std::optional<data::Dataset> dataset = data::Dataset::open(damaged.root());
  CHECK_THROWS_AS(profile::measure_codecs(net, test::small_pictures(), dataset, patient), Error);
}

TEST_CASE("tokens and what is computed from them are measured, tokens only as they are") {
  test::TempFolder folder;
  const model::Model net =
      model::load_model(test::save(test::token_net(), folder.path("net.pt")), {DType::i64, {6}}, Digest());
  const plan::CodecProfile profile =
      profile::measure_codecs(net, data::parse_preprocess("tokens"), {}, {}).profile;
  REQUIRE(profile.values.size() > 1);
  CHECK(profile.values[0].codecs.size() == 2);
  CHECK(profile.values.back().codecs.size() == 6);
}
