// Which candidates train together, and what is kept for them.
#include "reuse/fuse.h"

#include "cli/error.h"
#include "support/reuse.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace tl;
using namespace tl::reuse;
using test::integer;
using test::uniform;

namespace {

/// A chain: the record, then values that each take a second, 100 bytes each.
FusionProblem chain(int values) {
  FusionProblem problem;
  for (int n = 0; n <= values; ++n) {
    Node node;
    node.name = "v" + std::to_string(n);
    if (n > 0) node.inputs = {n - 1};
    node.compute = 1;
    node.load = node.write = 0.1;
    node.bytes = 100;
    problem.nodes.push_back(node);
    problem.row_bytes.push_back(100);
  }
  problem.records = problem.expected = 10;
  problem.memory = 0; // no rows are kept in memory
  return problem;
}

Trainee trainee(std::vector<int> reads, double passes = 4) {
  Trainee result;
  result.reads = std::move(reads);
  result.passes = passes;
  return result;
}

/// Each candidate once, no group over the memory but one of a single candidate, and costs that add up.
void check_sound(const FusionProblem &problem, const FusionPlan &plan) {
  std::vector<std::size_t> seen;
  for (const Fused &group : plan.groups) {
    REQUIRE(!group.trainees.empty());
    for (const std::size_t member : group.trainees) {
      seen.push_back(member);
      CHECK(problem.trainees[member].kind == problem.trainees[group.trainees[0]].kind);
      for (const int read : problem.trainees[member].reads)
        CHECK(group.uses[static_cast<std::size_t>(read)] != Use::pruned);
    }
    if (group.trainees.size() > 1) CHECK(group.memory <= problem.memory);
    for (std::size_t n = 0; n < problem.nodes.size(); ++n) {
      if (group.uses[n] == Use::loaded) CHECK(plan.materialised[n]);
      if (group.uses[n] == Use::computed)
        for (const int input : problem.nodes[n].inputs)
          CHECK(group.uses[static_cast<std::size_t>(input)] != Use::pruned);
    }
  }
  std::sort(seen.begin(), seen.end());
  for (std::size_t t = 0; t < problem.trainees.size(); ++t) REQUIRE(seen.at(t) == t);
  CHECK(seen.size() == problem.trainees.size());
  CHECK(plan.bytes <= problem.disk);
}

FusionProblem random_fusion(std::mt19937 &random, int nodes, int trainees) {
  FusionProblem problem;
  for (int n = 0; n < nodes; ++n) {
    const Node node = test::random_node(random, n);
    problem.nodes.push_back(node);
    problem.row_bytes.push_back(node.bytes);
  }
  for (int t = 0; t < trainees; ++t) {
    Trainee one = trainee({integer(random, nodes / 2, nodes - 1)}, integer(random, 1, 8));
    if (integer(random, 0, 2) == 0) one.reads.push_back(integer(random, 0, nodes - 1));
    one.kind = integer(random, 0, 3) == 0;
    one.fixed_bytes = uniform(random, 0, 400);
    one.step_bytes = uniform(random, 0, 400);
    one.seconds = uniform(random, 0, 5);
    problem.trainees.push_back(one);
  }
  problem.records = 100;
  problem.expected = integer(random, 0, 1) ? 100 : 160;
  problem.runs = integer(random, 1, 4);
  problem.disk = problem.expected * uniform(random, 0, 100);
  problem.memory = uniform(random, 0, 4000);
  return problem;
}

} // namespace

TEST_CASE("fuse: what reads the same is one pass, as long as its longest member") {
  FusionProblem problem = chain(3);
  problem.keep = Keep::none;
  problem.memory = 1000; // of which no row fits, once the candidates are in
  for (const double passes : {4, 2, 6}) {
    problem.trainees.push_back(trainee({3}, passes));
    problem.trainees.back().fixed_bytes = 300;
  }
  problem.frozen_bytes = 100;
  FusionPlan plan = make_plan(problem);
  check_sound(problem, plan);
  REQUIRE(plan.groups.size() == 1);
  CHECK(plan.groups[0].memory == 1000);
  CHECK(plan.seconds == doctest::Approx(10 * 6 * 4));
  CHECK(separate_seconds(problem) == doctest::Approx(10 * 12 * 4));
  SUBCASE("unless they must not") {
    problem.fuse = false;
    plan = make_plan(problem);
    CHECK(plan.groups.size() == 3);
    problem.fuse = true;
    problem.trainees[1].kind = 1;
    CHECK(make_plan(problem).groups.size() == 2);
  }
  SUBCASE("or memory does not suffice") {
    problem.memory = 999;
    plan = make_plan(problem);
    check_sound(problem, plan);
    REQUIRE(plan.groups.size() == 2);
    problem.memory = 10; // not even for one: it trains all the same
    CHECK(make_plan(problem).groups.size() == 3);
  }
  SUBCASE("and rows that fit into memory are made once") {
    problem.memory = 1000 + 10 * 100;
    plan = make_plan(problem);
    CHECK(plan.groups[0].cached == 1);
    CHECK(plan.seconds == doctest::Approx(10 * 4));
    problem.memory = 1000 + 10 * 50;
    CHECK(make_plan(problem).seconds == doctest::Approx(10 * 4 * (1 + 5 * 0.5)));
  }
}

TEST_CASE("fuse: passes that share layers are joined where that saves, and only there") {
  FusionProblem problem = chain(10);
  problem.keep = Keep::none;
  problem.memory = 1;
  for (Trainee one : {trainee({9}, 4), trainee({10}, 4), trainee({1}, 100)}) {
    one.step_bytes = 1;
    problem.trainees.push_back(one);
  }
  const FusionPlan plan = make_plan(problem);
  check_sound(problem, plan);
  REQUIRE(plan.groups.size() == 2); // ten layers for a hundred epochs would cost more than they save
  CHECK(plan.seconds == doctest::Approx(10 * (4 * 11 + 100 * 2)));
}

TEST_CASE("fuse: the disk budget decides what is kept, everything needs all of it") {
  FusionProblem problem = chain(4);
  problem.trainees = {trainee({2}), trainee({4})};
  FusionPlan plan = make_plan(problem);
  check_sound(problem, plan);
  CHECK(plan.materialised[2]);
  CHECK(plan.materialised[4]);
  CHECK(plan.seconds == doctest::Approx(10 * (5 + 2 * 0.1 + 2 * 4 * 0.1)));
  CHECK(plan.making == doctest::Approx(10 * (5 + 2 * 0.1)));
  problem.disk = 1999;
  plan = make_plan(problem);
  check_sound(problem, plan);
  CHECK(plan.bytes == 1000);
  problem.keep = Keep::all;
  CHECK_THROWS_AS(make_plan(problem), Error);
  problem.disk = 2000;
  CHECK(make_plan(problem).bytes == 2000);
  problem.expected = 20; // room is needed for the records that come
  CHECK_THROWS_AS(make_plan(problem), Error);
  problem.keep = Keep::none;
  CHECK(make_plan(problem).bytes == 0);
}

TEST_CASE("fuse: what an earlier run has made is not made again") {
  FusionProblem problem = chain(4);
  problem.trainees = {trainee({4}, 1)};
  CHECK(!make_plan(problem).materialised[4]); // for one pass it does not pay
  problem.nodes[4].there = 1;
  const FusionPlan plan = make_plan(problem);
  CHECK(plan.materialised[4]);
  CHECK(plan.seconds == doctest::Approx(10 * 0.1));
}

TEST_CASE("fuse: no plan is worse than keeping nothing, or everything where the disk suffices") {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    FusionProblem problem = random_fusion(random, 12, 1 + i % 7);
    const FusionPlan plan = make_plan(problem);
    check_sound(problem, plan);
    problem.runs = 1; // what is compared below is one run
    const double best = make_plan(problem).seconds;
    problem.keep = Keep::none;
    CHECK(best <= make_plan(problem).seconds * (1 + 1e-9));
    problem.fuse = false;
    CHECK(make_plan(problem).seconds <= separate_seconds(problem) * (1 + 1e-9));
    problem.fuse = true;
    problem.keep = Keep::all;
    problem.disk = 1e9;
    const FusionPlan everything = make_plan(problem);
    problem.disk = everything.bytes * (1 + 1e-9);
    problem.keep = Keep::plan;
    CHECK(make_plan(problem).seconds <= everything.seconds * (1 + 1e-9));
    if (everything.bytes == 0) continue;
    problem.keep = Keep::all;
    problem.disk = everything.bytes * 0.99;
    CHECK_THROWS_AS(make_plan(problem), Error);
  }
}

TEST_CASE("fuse: 50 candidates on 500 values are planned soon") {
  // Blocks with a short cut each, as networks have them; what is deep is smaller and dear to compute.
  std::mt19937 random(6);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  FusionProblem problem = chain(500);
  for (std::size_t n = 1; n < problem.nodes.size(); ++n) {
    Node &node = problem.nodes[n];
    if (n % 5 == 0 && n > 5) node.inputs.push_back(static_cast<int>(n) - 5);
    node.compute = uniform(0.1, 1);
    node.bytes = problem.row_bytes[n] = uniform(50, 150) * (1 + 200.0 / static_cast<double>(n));
    node.load = node.bytes / 1000;
    node.write = node.bytes / 500;
  }
  for (int t = 0; t < 50; ++t) {
    Trainee one = trainee({static_cast<int>(uniform(100, 500))}, static_cast<double>(1 + t % 10));
    if (t % 4 == 0) one.reads.push_back(static_cast<int>(uniform(50, 100)));
    one.fixed_bytes = uniform(0, 100);
    one.kind = t % 2;
    problem.trainees.push_back(one);
  }
  for (const double disk : {1e3, 1e4, 1e5}) {
    problem.disk = disk;
    for (const double memory : {0.0, 1e4}) {
      problem.memory = memory;
      const FusionPlan plan = make_plan(problem, {0.3});
      check_sound(problem, plan);
      CHECK(plan.gap >= 0);
      CHECK(plan.gap <= 1);
    }
  }
}
