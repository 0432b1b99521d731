#include "train/tiers.h"

#include <doctest/doctest.h>

using namespace tl;
using namespace tl::train;

namespace {

/// A second in which the sender was blocked in writing and the receiver in reading for these shares.
Arrival arrival(double blocked, double reading, double handling = 0) {
  Arrival made;
  made.delivery.records = 10;
  made.delivery.bytes = 1000;
  made.delivery.seconds = 1;
  made.delivery.reading = reading;
  made.delivery.sender = {
      1, {{"read", 0.1, 0.1}, {"decode", 0.2, 0.2}, {"compute", 0.3, 0.3}, {"write", blocked, blocked}}};
  made.handling = handling;
  return made;
}

} // namespace

TEST_CASE("the tier that holds up the others is found from both ends' waits") {
  CHECK(tiers(arrival(0.98, 0.97), 0.2).limited_by() == "link");          // both wait for it
  CHECK(tiers(arrival(0.05, 0.97), 0.2).limited_by() == "storage");       // only the receiver waits
  CHECK(tiers(arrival(0.98, 0.05), 0.95).limited_by() == "compute");      // only the sender waits
  CHECK(tiers(arrival(0.98, 0.05, 0.95), 0.3).limited_by() == "compute"); // for the decoding of what came
  CHECK(tiers(arrival(0.98, 0.6), 0.99).limited_by() == "compute");       // a link at 60 % is not the cause
}

TEST_CASE("shares stay shares, whatever the clocks say") {
  const Tiers busy = tiers(arrival(1, 1.2), 1.3);
  CHECK(busy.link == 1);
  CHECK(busy.compute == 1);
  CHECK(busy.storage == doctest::Approx(0.3)); // its busiest stage
  Arrival silent = arrival(0, 0.9);
  silent.delivery.sender = {};
  CHECK(tiers(silent, 0.1).limited_by() == "link");
}

TEST_CASE("what is reported is what was measured") {
  const json::Value line = arrival_json(arrival(0.98, 0.97), {0.25, 16, 1.5}, 20, "layer1", "fp32");
  CHECK(line["limited_by"] == "link");
  CHECK(line["records"] == 10);
  CHECK(line["compute_seconds"].get<double>() == doctest::Approx(0.25 / 20));
  CHECK(line["later_records"] == 16);
  CHECK(line["later_seconds"] == 1.5);
  CHECK(line["sender"]["stages"].size() == 4);
  CHECK(describe_arrival(arrival(0.98, 0.97), 0.25).find("held up by the link") != std::string::npos);
}
