#include "reuse/materialise.h"

#include "cli/error.h"
#include "reuse/contract.h"
#include "support/reuse.h"

#include <doctest/doctest.h>

#include <random>

using namespace tl;
using namespace tl::reuse;
using test::integer;
using test::uniform;

namespace {

/// A chain or a net with skips, as networks are, with readers somewhere on it.
Problem random_problem(std::mt19937 &random, int nodes, int readers) {
  Problem problem;
  problem.records = 100;
  for (int n = 0; n < nodes; ++n) {
    Node node = test::random_node(random, n);
    if (node.storable && integer(random, 0, 3) == 0) node.there = uniform(random, 0, 1);
    problem.nodes.push_back(node);
  }
  for (int r = 0; r < readers; ++r) {
    Reader reader;
    for (int i = integer(random, 1, 2); i > 0; --i)
      reader.reads.push_back(integer(random, nodes / 2, nodes - 1));
    reader.passes = integer(random, 1, 8);
    problem.readers.push_back(reader);
  }
  problem.budget = 100 * uniform(random, 0, 60);
  return problem;
}

/// The cheapest uses of one reader, by trying all.
double brute_reader(const Problem &problem, const Reader &reader, const std::vector<bool> &materialised) {
  const std::size_t nodes = problem.nodes.size();
  double best = 1e300;
  for (std::size_t bits = 0; bits < (std::size_t{1} << nodes); ++bits) { // computed ones
    std::vector<bool> present(nodes);
    for (const int read : reader.reads) present[static_cast<std::size_t>(read)] = true;
    double cost = 0;
    bool possible = true;
    for (std::size_t n = nodes; n-- > 0 && possible;) {
      const bool computed = bits >> n & 1;
      if (computed) {
        cost += problem.nodes[n].compute;
        for (const int input : problem.nodes[n].inputs) present[static_cast<std::size_t>(input)] = true;
      } else if (present[n]) {
        possible = materialised[n];
        cost += problem.nodes[n].load;
      }
    }
    if (possible) best = std::min(best, cost);
  }
  return best;
}

double brute(const Problem &problem, const std::vector<bool> &materialised) {
  const std::size_t nodes = problem.nodes.size();
  std::vector<double> made(nodes); // share of the records
  double cost = 0;
  for (std::size_t n = nodes; n-- > 0;) {
    const Node &node = problem.nodes[n];
    if (materialised[n]) {
      cost += (1 - node.there) * node.write;
      made[n] = std::max(made[n], 1 - node.there);
    }
    cost += made[n] * node.compute;
    for (const int input : node.inputs) {
      double &share = made[static_cast<std::size_t>(input)];
      share = std::max(share, made[n]);
    }
  }
  for (const Reader &reader : problem.readers)
    cost += reader.passes * brute_reader(problem, reader, materialised);
  return problem.records * cost;
}

double brute_best(const Problem &problem) {
  const std::size_t nodes = problem.nodes.size();
  double best = 1e300;
  for (std::size_t bits = 0; bits < (std::size_t{1} << nodes); ++bits) {
    std::vector<bool> materialised(nodes);
    double bytes = 0;
    bool possible = true;
    for (std::size_t n = 0; n < nodes; ++n) {
      materialised[n] = bits >> n & 1;
      if (materialised[n]) bytes += problem.records * problem.nodes[n].bytes;
      possible = possible && (!materialised[n] || problem.nodes[n].storable);
    }
    if (possible && bytes <= problem.budget) best = std::min(best, evaluate(problem, materialised).seconds);
  }
  return best;
}

} // namespace

TEST_CASE("reuse: for a given set, each reader loads and computes what is cheapest") {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const Problem problem = random_problem(random, 8, 3);
    std::vector<bool> materialised;
    for (const Node &node : problem.nodes) materialised.push_back(node.storable && random() % 2);
    CHECK(evaluate(problem, materialised).seconds ==
          doctest::Approx(brute(problem, materialised)).epsilon(1e-9));
  }
}

TEST_CASE("reuse: the exact answer is the best of all sets, and the bound says so") {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    const Problem problem = random_problem(random, 8, 1 + i % 4);
    Options options;
    options.seconds = 20;
    const Solution solution = materialise(problem, options);
    CHECK(solution.bytes <= problem.budget);
    CHECK(solution.seconds == doctest::Approx(brute_best(problem)).epsilon(1e-3));
    CHECK(solution.bound <= solution.seconds);
    CHECK(solution.gap() <= 2e-3);
  }
}

TEST_CASE("reuse: greedy is never worse than storing nothing, and never over the budget") {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const Problem problem = random_problem(random, 12, 4);
    Options options;
    options.seconds = 0;
    const Solution greedy = materialise(problem, options), exact = materialise(problem);
    CHECK(greedy.bytes <= problem.budget);
    CHECK(greedy.seconds <= evaluate(problem, std::vector<bool>(12)).seconds);
    CHECK(exact.seconds <= greedy.seconds * (1 + 1e-9));
    CHECK(greedy.bound <= exact.seconds * (1 + 1e-9));
  }
}

TEST_CASE("reuse: a smaller problem has the same best answer") {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    const Problem problem = random_problem(random, 9, 1 + i % 3);
    const Contracted small = contract(problem);
    CHECK(small.problem.nodes.size() <= problem.nodes.size());
    CHECK(brute_best(small.problem) == doctest::Approx(brute_best(problem)).epsilon(1e-9));
  }
}

TEST_CASE("reuse: of a chain in which values shrink, only the last one is a choice") {
  Problem problem;
  problem.records = 10;
  problem.budget = 1e9;
  for (int n = 0; n < 20; ++n)
    problem.nodes.push_back(
        {"v", n ? std::vector<int>{n - 1} : std::vector<int>{}, 1, 0.1, 0.1, 100.0 - n, n > 0});
  problem.readers = {{{19}, 5}};
  CHECK(contract(problem).problem.nodes.size() == 1);
  const Solution solution = materialise(problem);
  CHECK(solution.materialised[19]);
  CHECK(solution.seconds == doctest::Approx(10 * (20 + 0.1 + 5 * 0.1)));
}

TEST_CASE("reuse: nothing is stored that costs more than it saves") {
  Problem problem;
  problem.records = 10;
  problem.budget = 1e9;
  problem.nodes = {{"record", {}, 1, 0.1, 0.1, 100, false}, {"features", {0}, 1, 5, 0.1, 100, true}};
  problem.readers = {{{1}, 50}};
  CHECK_FALSE(materialise(problem).materialised[1]); // loading it takes longer than computing it
  problem.nodes[1].load = 0.1;
  CHECK(materialise(problem).materialised[1]);
  problem.readers[0].passes = 1;
  CHECK_FALSE(materialise(problem).materialised[1]); // read once only
  problem.readers[0].passes = 50;
  problem.budget = 999;
  CHECK_FALSE(materialise(problem).materialised[1]); // does not fit
  problem.budget = 1000;
  CHECK(materialise(problem).materialised[1]);
}

TEST_CASE("reuse: costs and graphs that cannot be are refused") {
  Problem good;
  good.records = 1;
  good.nodes = {{"a", {}, 1, 1, 1, 1, true}, {"b", {0}, 1, 1, 1, 1, true}};
  good.readers = {{{1}, 1}};
  materialise(good);
  Problem bad = good;
  bad.nodes[0].inputs = {1};
  CHECK_THROWS_AS(materialise(bad), Error);
  bad = good;
  bad.nodes[1].load = -1;
  CHECK_THROWS_AS(materialise(bad), Error);
  bad = good;
  bad.nodes[1].compute = std::nan("");
  CHECK_THROWS_AS(materialise(bad), Error);
  bad = good;
  bad.readers[0].reads = {2};
  CHECK_THROWS_AS(materialise(bad), Error);
}
