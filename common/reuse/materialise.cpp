#include "reuse/materialise.h"

#include "cli/error.h"
#include "reuse/contract.h"
#include "reuse/milp.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

namespace tl::reuse {

namespace {

/// Readers by nodes; even without integers, larger programs take seconds, whatever limit the solver is given.
constexpr std::size_t kLargestProgram = 5000;

void check(const Problem &problem) {
  const auto sound = [](double number) { return std::isfinite(number) && number >= 0; };
  const auto nodes = static_cast<int>(problem.nodes.size());
  for (int n = 0; n < nodes; ++n) {
    const Node &node = problem.nodes[static_cast<std::size_t>(n)];
    for (const double number : {node.compute, node.load, node.write, node.bytes})
      if (!sound(number))
        throw Error("internal error: a cost of '" + node.name + "' is " + std::to_string(number));
    if (!(node.there >= 0 && node.there <= 1))
      throw Error("internal error: '" + node.name + "' is there for " + std::to_string(node.there) +
                  " of the records");
    for (const int input : node.inputs)
      if (input < 0 || input >= n) throw Error("internal error: '" + node.name + "' comes before its inputs");
  }
  for (const Reader &reader : problem.readers) {
    if (!sound(reader.passes)) throw Error("internal error: a reader with impossible passes");
    for (const int read : reader.reads)
      if (read < 0 || read >= nodes) throw Error("internal error: a reader of a value that is not there");
  }
  if (!sound(problem.records) || !(problem.budget >= 0))
    throw Error("internal error: impossible records or budget");
}

/// Adds the value that saves most per byte, again and again. A value's gain seldom grows when others are
/// added, so most of the old gains need no second look.
Solution greedy(const Problem &problem) {
  Solution best = evaluate(problem, std::vector<bool>(problem.nodes.size()));
  const auto with = [&](std::size_t node) { return evaluate(problem, best, static_cast<int>(node)); };
  const auto worth = [&](const Solution &next) {
    return (best.seconds - next.seconds) / std::max(next.bytes - best.bytes, 1.0);
  };
  std::priority_queue<std::pair<double, std::size_t>> queue;
  for (std::size_t n = 0; n < problem.nodes.size(); ++n)
    if (problem.nodes[n].storable) queue.emplace(worth(with(n)), n);
  while (!queue.empty() && queue.top().first > 0) {
    const std::size_t node = queue.top().second;
    queue.pop();
    Solution next = with(node);
    if (next.bytes > problem.budget) continue;
    const double now = worth(next);
    if (now <= 0) continue;
    if (!queue.empty() && now < queue.top().first) {
      queue.emplace(now, node);
      continue;
    }
    best = std::move(next);
  }
  return best;
}

/// Of any solution: as if everything were on disk, without a budget and for nothing.
double least(const Problem &problem) {
  std::vector<bool> all;
  for (const Node &node : problem.nodes) all.push_back(node.storable);
  double seconds = 0;
  for (const Reader &reader : problem.readers) seconds += reader.passes * pass_seconds(problem, reader, all);
  return problem.records * seconds;
}

/// Of the integer program: readers by nodes.
std::size_t size(const Problem &problem) { return problem.nodes.size() * problem.readers.size(); }

/// Candidates that read the same values are one reader with the passes of all.
void join_readers(Problem &problem) {
  std::map<std::vector<int>, double> passes;
  for (Reader &reader : problem.readers) {
    std::sort(reader.reads.begin(), reader.reads.end());
    reader.reads.erase(std::unique(reader.reads.begin(), reader.reads.end()), reader.reads.end());
    passes[reader.reads] += reader.passes;
  }
  problem.readers.clear();
  for (const auto &[reads, sum] : passes) problem.readers.push_back({reads, sum});
}

} // namespace

Solution materialise(const Problem &problem, const Options &options) {
  check(problem);
  Contracted small = contract(problem);
  join_readers(small.problem);
  Solution answer = greedy(small.problem);
  answer.bound = least(small.problem);
  if (options.seconds > 0 && size(small.problem) <= kLargestProgram) {
    const double bound = answer.bound;
    answer = solve_exactly(small.problem, answer, options);
    answer.bound = std::max(answer.bound, bound);
  }
  std::vector<bool> materialised(problem.nodes.size());
  for (std::size_t n = 0; n < small.kept.size(); ++n)
    materialised[static_cast<std::size_t>(small.kept[n])] = answer.materialised[n];
  Solution solution = evaluate(problem, materialised);
  solution.bound = std::min(answer.bound, solution.seconds);
  return solution;
}

} // namespace tl::reuse
