// Who trains how long: the published tables, and rules that hold for any scores.
#include "select/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

using namespace tl;
using select::Assignment;
using select::Score;
using select::Search;
using select::SearchSettings;
using select::Strategy;

namespace {

SearchSettings settings(Strategy strategy, std::int64_t max_epochs, std::int64_t min_epochs = 1,
                        std::int64_t eta = 3) {
  SearchSettings result;
  result.strategy = strategy;
  result.max_epochs = max_epochs;
  result.min_epochs = min_epochs;
  result.eta = eta;
  return result;
}

using Rungs = std::vector<std::map<std::int64_t, std::size_t>>; // of each rung: candidates by their epochs

/// Runs a search in which candidate c scores `score(c)`.
template <class Function> Rungs run(Search &search, const Function &score) {
  Rungs rungs;
  for (auto rung = search.next(); !rung.empty(); rung = search.next()) {
    rungs.emplace_back();
    std::vector<Score> scores;
    for (const Assignment &assignment : rung) {
      ++rungs.back()[assignment.epochs];
      scores.push_back({assignment.candidate, score(assignment.candidate)});
    }
    search.report(scores);
  }
  return rungs;
}

std::optional<double> by_number(std::size_t candidate) { return static_cast<double>(candidate); }

} // namespace

TEST_CASE("Hyperband has the brackets of Li et al., table 1") {
  const auto brackets = select::brackets(settings(Strategy::hyperband, 81));
  REQUIRE(brackets.size() == 5);
  const std::vector<std::size_t> sizes = {81, 34, 15, 8, 5};
  for (std::size_t b = 0; b < 5; ++b) {
    CHECK(brackets[b].candidates == sizes[b]);
    CHECK(brackets[b].rungs.size() == 5 - b);
    CHECK(brackets[b].rungs.back() == 81);
  }
  CHECK(brackets[0].rungs == std::vector<std::int64_t>{1, 3, 9, 27, 81});
  CHECK(brackets[3].rungs == std::vector<std::int64_t>{27, 81});
  Search search(settings(Strategy::hyperband, 81), 81 + 34 + 15 + 8 + 5);
  CHECK(run(search, by_number) == Rungs{{{1, 81}, {3, 34}, {9, 15}, {27, 8}, {81, 5}},
                                        {{3, 27}, {9, 11}, {27, 5}, {81, 2}},
                                        {{9, 9}, {27, 3}, {81, 1}},
                                        {{27, 3}, {81, 1}},
                                        {{81, 1}}});
}

TEST_CASE("halving keeps one of eta, rung by rung, and the best to the end") {
  Search search(settings(Strategy::halving, 8, 1, 2), 16);
  std::map<std::size_t, std::int64_t> reached;
  for (auto rung = search.next(); !rung.empty(); rung = search.next()) {
    std::vector<Score> scores;
    for (const Assignment &assignment : rung) {
      reached[assignment.candidate] = assignment.epochs;
      scores.push_back({assignment.candidate, by_number(assignment.candidate)});
    }
    std::reverse(scores.begin(), scores.end()); // in any order
    search.report(scores);
  }
  for (std::size_t c = 0; c < 16; ++c) CHECK(reached[c] == (c < 8 ? 1 : c < 12 ? 2 : c < 14 ? 4 : 8));
}

TEST_CASE("epochs are whole and a lone survivor goes straight to the end") {
  Search search(settings(Strategy::halving, 20, 2), 3);
  CHECK(run(search, by_number) == Rungs{{{2, 3}}, {{20, 1}}});
  Search one(settings(Strategy::halving, 20, 2), 1);
  CHECK(run(one, by_number) == Rungs{{{20, 1}}});
  Search none(settings(Strategy::hyperband, 20, 2), 0);
  CHECK(none.next().empty());
  Search flat(settings(Strategy::halving, 3, 2), 5); // no room for a rung below
  CHECK(run(flat, by_number) == Rungs{{{3, 5}}});
}

TEST_CASE("failed candidates and not-a-numbers go on never, equal scores by their number") {
  Search search(settings(Strategy::halving, 9, 1), 9);
  const auto first = search.next();
  std::vector<Score> scores;
  for (const Assignment &assignment : first) scores.push_back({assignment.candidate, 0.5});
  scores[0].score.reset();
  scores[1].score = NAN;
  search.report(scores);
  std::vector<std::size_t> left;
  for (const Assignment &assignment : search.next()) left.push_back(assignment.candidate);
  CHECK(left == std::vector<std::size_t>{2, 3, 4});
  search.report({{2, std::nullopt}, {3, std::nullopt}, {4, std::nullopt}});
  CHECK(search.next().empty());
}

TEST_CASE("fewer candidates than places share the brackets") {
  for (std::size_t n = 1; n <= 30; ++n) {
    Search search(settings(Strategy::hyperband, 9), n); // 9, 5 and 3 places
    std::size_t started = 0;
    for (const auto &assignment : search.next()) started += assignment.candidate < n;
    CHECK(started == n);
  }
}

TEST_CASE("without rungs everything trains to the end at once") {
  for (const Strategy strategy : {Strategy::grid, Strategy::random}) {
    Search search(settings(strategy, 0), 4);
    CHECK(run(search, by_number) == Rungs{{{Search::kToTheEnd, 4}}});
  }
}

TEST_CASE("whatever the scores, nobody trains less than before and every rung is smaller") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto strategy = random() % 2 ? Strategy::halving : Strategy::hyperband;
    const auto max = static_cast<std::int64_t>(1 + random() % 100);
    Search search(settings(strategy, max, 1 + static_cast<std::int64_t>(random() % 100) % max,
                           2 + static_cast<std::int64_t>(random() % 4)),
                  1 + random() % 60);
    std::map<std::size_t, std::int64_t> reached;
    std::size_t before = SIZE_MAX;
    int rungs = 0;
    for (auto rung = search.next(); !rung.empty() && rungs < 20; rung = search.next(), ++rungs) {
      CHECK(rung.size() <= before);
      before = rung.size();
      std::vector<Score> scores;
      for (const Assignment &assignment : rung) {
        CHECK(assignment.epochs > reached[assignment.candidate]);
        CHECK(assignment.epochs <= max);
        reached[assignment.candidate] = assignment.epochs;
        scores.push_back(
            {assignment.candidate, random() % 5 ? std::optional(double(random() % 9)) : std::nullopt});
      }
      search.report(scores);
    }
    CHECK(rungs < 20);
  }
}
