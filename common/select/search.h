// How much each candidate is trained: all of it, or rung by rung while it is among the best.
//
// Pure decisions, no training: a Search says who trains until which epoch, the executor (select.h) does it
// and reports the scores. The same settings, candidates and scores always give the same decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tl::select {

enum class Strategy {
  grid,      // every combination, all of its epochs
  random,    // some drawn at random, all of their epochs
  halving,   // successive halving: Jamieson and Talwalkar, AISTATS 2016, section 3, figure 3
  hyperband, // brackets of successive halving: Li et al., JMLR 18 (2018), section 3, algorithm 1
};

/// "grid", "random", "halving", "hyperband".
std::string_view name_of(Strategy strategy);

/// What an experiment's "search" says.
struct SearchSettings {
  Strategy strategy = Strategy::grid;
  std::int64_t samples = 0;    // candidates to draw; 0: the strategy's own number
  std::int64_t eta = 3;        // one of so many goes on to the next rung
  std::int64_t min_epochs = 1; // of the lowest rung
  std::int64_t max_epochs = 0; // of the highest; learning-rate schedules are for it
  std::uint64_t seed = 0;      // of what is drawn

  /// True if candidates may be stopped before their last epoch.
  bool by_rungs() const { return strategy == Strategy::halving || strategy == Strategy::hyperband; }
};

/// Candidates that compete with each other, and the epochs until which they do.
struct Bracket {
  std::size_t candidates = 0;
  std::vector<std::int64_t> rungs; // epochs, ascending; the last is max_epochs
};

/// The brackets of a search by rungs over an unlimited space, with the fewest epochs to start from first:
/// one for halving (with `samples` candidates), all for Hyperband (algorithm 1 with min_epochs as the unit).
std::vector<Bracket> brackets(const SearchSettings &settings);

/// Train this candidate until it has done so many epochs in all.
struct Assignment {
  std::size_t candidate = 0;
  std::int64_t epochs = 0;
};

struct Score {
  std::size_t candidate = 0;
  std::optional<double> score; // larger is better; nothing: failed
};

class Search {
public:
  /// Candidates 0, 1, ... compete in this order: the first bracket takes the first ones. If there are fewer
  /// than the brackets have places, each gets its share. A search that does not go by rungs assigns
  /// everything at once, until kToTheEnd.
  Search(const SearchSettings &settings, std::size_t candidates);

  static constexpr std::int64_t kToTheEnd = INT64_MAX; // all epochs that the candidate's options give

  /// The next rung of every bracket; empty: done. All must be reported before the next call.
  std::vector<Assignment> next();

  /// In any order. Of each bracket, the best 1/eta (at least one, and never a failed one) go on; equal
  /// scores by the candidate's number. A single survivor goes straight to the last rung.
  void report(const std::vector<Score> &scores);

private:
  struct Race {
    std::vector<std::int64_t> rungs;
    std::size_t rung = 0;                // the next
    std::vector<std::size_t> candidates; // that are still in
    std::size_t started = 0;             // candidates at the start
  };

  void advance(Race &race) const;

  std::int64_t eta_;
  std::vector<Race> races_;
  std::vector<std::optional<double>> scores_; // of the last report
};

} // namespace tl::select
