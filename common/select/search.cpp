#include "select/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tl::select {

namespace {

constexpr std::array<std::string_view, 4> kStrategies = {"grid", "random", "halving", "hyperband"};

/// The largest s with min_epochs * eta^s <= max_epochs.
std::size_t deepest(const SearchSettings &settings) {
  std::size_t s = 0;
  for (std::int64_t left = settings.max_epochs / settings.eta; left >= settings.min_epochs;
       left /= settings.eta)
    ++s;
  return s;
}

std::int64_t power(std::int64_t base, std::size_t exponent) {
  std::int64_t result = 1;
  while (exponent-- > 0) result *= base;
  return result;
}

/// max_epochs / eta^s, ..., max_epochs / eta, max_epochs.
std::vector<std::int64_t> rungs_of(const SearchSettings &settings, std::size_t s) {
  std::vector<std::int64_t> rungs;
  for (std::size_t i = 0; i <= s; ++i) rungs.push_back(settings.max_epochs / power(settings.eta, s - i));
  return rungs;
}

/// Sizes in the proportion of `wanted` that add up to `total`, the larger fractions rounded up.
std::vector<std::size_t> shares(const std::vector<Bracket> &wanted, std::size_t total) {
  std::size_t sum = 0;
  for (const Bracket &bracket : wanted) sum += bracket.candidates;
  std::vector<std::size_t> sizes, order(wanted.size());
  for (const Bracket &bracket : wanted) sizes.push_back(bracket.candidates * total / sum);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return wanted[a].candidates * total % sum > wanted[b].candidates * total % sum;
  });
  std::size_t given = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  for (std::size_t i = 0; given < total; ++i, ++given) ++sizes[order[i % order.size()]];
  return sizes;
}

} // namespace

std::string_view name_of(Strategy strategy) { return kStrategies[static_cast<std::size_t>(strategy)]; }

std::vector<Bracket> brackets(const SearchSettings &settings) {
  const std::size_t s_max = deepest(settings);
  if (settings.strategy == Strategy::halving)
    return {{static_cast<std::size_t>(settings.samples), rungs_of(settings, s_max)}};
  std::vector<Bracket> result;
  for (std::size_t s = s_max + 1; s-- > 0;) {
    // n = ceil((B / R) * eta^s / (s + 1)) with B = (s_max + 1) R.
    const auto places = static_cast<std::size_t>(power(settings.eta, s)) * (s_max + 1);
    result.push_back({(places + s) / (s + 1), rungs_of(settings, s)});
  }
  return result;
}

Search::Search(const SearchSettings &settings, std::size_t candidates)
    : eta_(settings.eta), scores_(candidates) {
  std::vector<Bracket> plan = {{candidates, {kToTheEnd}}};
  if (settings.strategy == Strategy::halving) {
    plan = brackets(settings);
    plan[0].candidates = candidates;
  } else if (settings.strategy == Strategy::hyperband) {
    plan = brackets(settings);
  }
  if (candidates == 0) return;
  const std::vector<std::size_t> sizes = shares(plan, candidates);
  std::size_t first = 0;
  for (std::size_t b = 0; b < plan.size(); ++b) {
    Race race{plan[b].rungs, 0, std::vector<std::size_t>(sizes[b]), sizes[b]};
    std::iota(race.candidates.begin(), race.candidates.end(), first);
    first += sizes[b];
    if (sizes[b] == 1) race.rung = race.rungs.size() - 1; // nobody to compete with
    races_.push_back(std::move(race));
  }
}

std::vector<Assignment> Search::next() {
  std::vector<Assignment> assignments;
  for (const Race &race : races_)
    if (race.rung < race.rungs.size())
      for (const std::size_t candidate : race.candidates)
        assignments.push_back({candidate, race.rungs[race.rung]});
  return assignments;
}

void Search::report(const std::vector<Score> &scores) {
  for (const Score &score : scores)
    scores_.at(score.candidate) = score.score && std::isnan(*score.score) ? std::nullopt : score.score;
  for (Race &race : races_)
    if (race.rung < race.rungs.size()) advance(race);
}

void Search::advance(Race &race) const {
  ++race.rung;
  if (race.rung == race.rungs.size()) return;
  std::vector<std::size_t> &in = race.candidates;
  in.erase(std::remove_if(in.begin(), in.end(), [&](std::size_t c) { return !scores_[c]; }), in.end());
  std::stable_sort(in.begin(), in.end(),
                   [&](std::size_t a, std::size_t b) { return *scores_[a] > *scores_[b]; });
  const std::size_t places =
      std::max<std::size_t>(1, race.started / static_cast<std::size_t>(power(eta_, race.rung)));
  if (in.size() > places) in.resize(places);
  std::sort(in.begin(), in.end()); // ties of the next rung again go by number
  if (in.size() <= 1) race.rung = race.rungs.size() - (in.empty() ? 0 : 1);
}

} // namespace tl::select
