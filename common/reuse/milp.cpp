#include "reuse/milp.h"

#include "runtime/at.h"

#include <coin/Cbc_C_Interface.h>
#include <coin/CoinFinite.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

namespace tl::reuse {

namespace {

/// Only whether a value is materialised has to be an integer: with that fixed, every other row is a
/// difference of two variables, which makes the rest a network flow with integer corners.
class Program {
public:
  explicit Program(const Problem &problem)
      : problem_(problem), model_(Cbc_newModel(), Cbc_deleteModel), stored_(problem.nodes.size(), -1),
        made_(problem.nodes.size(), -1) {
    Cbc_setLogLevel(model_.get(), 0);
    add_making();
    for (const Reader &reader : problem.readers) add_reader(reader);
    add_budget();
    load();
  }

  Solution solve(const Solution &start, const Options &options) {
    set_start(start);
    // When the time is over during its preprocessing, CBC 2.10 follows a null pointer.
    Cbc_setParameter(model_.get(), "preprocess", "off");
    Cbc_setMaximumSeconds(model_.get(), options.seconds);
    Cbc_setAllowableFractionGap(model_.get(), options.gap);
    Cbc_solve(model_.get());
    const double bound = std::max(0.0, problem_.records * Cbc_getBestPossibleObjValue(model_.get()));
    Solution best = start;
    if (const double *values = Cbc_getColSolution(model_.get())) {
      Solution found = evaluate(problem_, rounded(values));
      if (found.bytes <= problem_.budget && found.seconds < best.seconds) best = std::move(found);
    }
    // Solved: CBC says so, but its bound may still be that of an early relaxation; or nothing is below the
    // start.
    const bool proved = Cbc_isProvenOptimal(model_.get()) || Cbc_isProvenInfeasible(model_.get());
    best.bound = std::min(proved ? std::max(bound, (1 - options.gap) * best.seconds) : bound, best.seconds);
    return best;
  }

private:
  int column(double most, double cost, bool integer) {
    upper_.push_back(most);
    cost_.push_back(cost);
    if (integer) integers_.push_back(static_cast<int>(upper_.size()) - 1);
    columns_.emplace_back();
    return static_cast<int>(upper_.size()) - 1;
  }

  /// sum of coefficient * column >= least
  void row(const std::vector<std::pair<int, double>> &terms, double least) {
    for (const auto &[column, coefficient] : terms)
      columns_[at(column)].emplace_back(static_cast<int>(least_.size()), coefficient);
    least_.push_back(least);
  }

  /// All at once: the solver moves everything for each row that is added alone.
  void load() {
    std::vector<CoinBigIndex> starts = {0};
    std::vector<int> rows;
    std::vector<double> coefficients;
    for (const auto &column : columns_) {
      for (const auto &[row, coefficient] : column) {
        rows.push_back(row);
        coefficients.push_back(coefficient);
      }
      starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    }
    const std::vector<double> zero(columns_.size()), most(least_.size(), COIN_DBL_MAX);
    Cbc_loadProblem(model_.get(), static_cast<int>(columns_.size()), static_cast<int>(least_.size()),
                    starts.data(), rows.data(), coefficients.data(), zero.data(), upper_.data(), cost_.data(),
                    least_.data(), most.data());
    for (const int column : integers_) Cbc_setInteger(model_.get(), column);
  }

  /// What is stored is computed once, with all that it needs, and written.
  void add_making() {
    for (std::size_t n = 0; n < problem_.nodes.size(); ++n) {
      const Node &node = problem_.nodes[n];
      made_[n] = column(1, node.compute, false);
      if (!node.storable) continue;
      const double lacking = 1 - node.there;
      stored_[n] = column(1, lacking * node.write, true);
      row({{made_[n], 1}, {stored_[n], -lacking}}, 0);
    }
    for (std::size_t n = 0; n < problem_.nodes.size(); ++n)
      for (const int input : problem_.nodes[n].inputs) row({{made_[at(input)], 1}, {made_[n], -1}}, 0);
  }

  void add_reader(const Reader &reader) {
    std::vector<bool> in(problem_.nodes.size());
    for (const int read : reader.reads) in[at(read)] = true;
    for (std::size_t n = in.size(); n-- > 0;)
      if (in[n])
        for (const int input : problem_.nodes[n].inputs) in[at(input)] = true;
    std::vector<int> present(in.size(), -1), computed(in.size(), -1);
    for (std::size_t n = 0; n < in.size(); ++n) {
      if (!in[n]) continue;
      const Node &node = problem_.nodes[n];
      if (!node.storable) {
        present[n] = computed[n] = column(1, reader.passes * node.compute, false);
        continue;
      }
      present[n] = column(1, reader.passes * node.load, false);
      computed[n] = column(1, reader.passes * (node.compute - node.load), false);
      row({{present[n], 1}, {computed[n], -1}}, 0);
      row({{stored_[n], 1}, {computed[n], 1}, {present[n], -1}}, 0); // loaded only if stored
    }
    for (std::size_t n = 0; n < in.size(); ++n)
      if (in[n])
        for (const int input : problem_.nodes[n].inputs) row({{present[at(input)], 1}, {computed[n], -1}}, 0);
    for (const int read : reader.reads) row({{present[at(read)], 1}}, 1);
  }

  void add_budget() {
    std::vector<std::pair<int, double>> terms;
    double most = 0;
    for (std::size_t n = 0; n < problem_.nodes.size(); ++n)
      if (stored_[n] >= 0) most = std::max(most, problem_.nodes[n].bytes);
    if (most <= 0 || problem_.records <= 0) return;
    // In units of the largest value: the solver's tolerances are absolute.
    for (std::size_t n = 0; n < problem_.nodes.size(); ++n)
      if (stored_[n] >= 0) terms.emplace_back(stored_[n], -problem_.nodes[n].bytes / most);
    row(terms, -problem_.budget / problem_.records / most);
  }

  void set_start(const Solution &start) {
    std::vector<int> columns;
    std::vector<double> values;
    for (std::size_t n = 0; n < stored_.size(); ++n)
      if (stored_[n] >= 0) {
        columns.push_back(stored_[n]);
        values.push_back(start.materialised[n] ? 1 : 0);
      }
    Cbc_setMIPStartI(model_.get(), static_cast<int>(columns.size()), columns.data(), values.data());
  }

  std::vector<bool> rounded(const double *values) const {
    std::vector<bool> result(stored_.size());
    for (std::size_t n = 0; n < stored_.size(); ++n) result[n] = stored_[n] >= 0 && values[stored_[n]] > 0.5;
    return result;
  }

  const Problem &problem_;
  std::unique_ptr<Cbc_Model, void (*)(Cbc_Model *)> model_;
  std::vector<std::vector<std::pair<int, double>>> columns_; // row and coefficient
  std::vector<double> upper_, cost_, least_;                 // of columns, columns and rows
  std::vector<int> integers_;
  std::vector<int> stored_, made_; // columns of each node
};

} // namespace

Solution solve_exactly(const Problem &problem, const Solution &start, const Options &options) {
  return Program(problem).solve(start, options);
}

} // namespace tl::reuse
