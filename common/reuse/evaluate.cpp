#include "reuse/materialise.h"
#include "reuse/min_cut.h"
#include "runtime/at.h"

#include <algorithm>

namespace tl::reuse {

namespace {

/// What making the materialised values takes, for one record: all that they are computed from, once, and
/// writing; for the share of the records that lack them.
double making(const Problem &problem, const std::vector<bool> &materialised) {
  std::vector<double> computed(problem.nodes.size()); // share of the records
  double seconds = 0;
  for (std::size_t n = problem.nodes.size(); n-- > 0;) {
    const Node &node = problem.nodes[n];
    if (materialised[n]) {
      seconds += (1 - node.there) * node.write;
      computed[n] = std::max(computed[n], 1 - node.there);
    }
    seconds += computed[n] * node.compute;
    for (const int input : node.inputs) computed[at(input)] = std::max(computed[at(input)], computed[n]);
  }
  return seconds;
}

/// What a reader may use: of nodes that are certainly loaded, nothing below.
struct Cone {
  std::vector<int> nodes;   // as numbers in order
  std::vector<bool> loaded; // of each: to load it takes no longer than its own computation
  bool open = false;        // some could be loaded instead of computed, to spare what lies below
};

Cone cone_of(const Problem &problem, const Reader &reader, const std::vector<bool> &materialised) {
  std::vector<bool> in(problem.nodes.size());
  int last = -1;
  for (const int read : reader.reads) {
    in[at(read)] = true;
    last = std::max(last, read);
  }
  Cone cone;
  for (int n = last; n >= 0; --n) {
    if (!in[at(n)]) continue;
    const Node &node = problem.nodes[at(n)];
    const bool loaded = materialised[at(n)] && node.load <= node.compute;
    cone.nodes.push_back(n);
    cone.loaded.push_back(loaded);
    if (loaded) continue;
    cone.open = cone.open || materialised[at(n)];
    for (const int input : node.inputs) in[at(input)] = true;
  }
  std::reverse(cone.nodes.begin(), cone.nodes.end());
  std::reverse(cone.loaded.begin(), cone.loaded.end());
  return cone;
}

/// The cheapest choice of "present" and "computed" for each node of the cone, in which computing needs its
/// inputs present, and what is present but not computed is loaded. As a minimum cut, a node that could be
/// either is an arc from present to computed (its load) and on to the sink (its computation).
std::vector<Use> cut(const Problem &problem, const Reader &reader, const std::vector<bool> &materialised,
                     const Cone &cone) {
  std::vector<int> present(problem.nodes.size(), -1), computed(problem.nodes.size(), -1);
  int vertices = 0;
  double most = 0;
  for (std::size_t i = 0; i < cone.nodes.size(); ++i) {
    const int n = cone.nodes[i];
    present[at(n)] = vertices++;
    computed[at(n)] = materialised[at(n)] && !cone.loaded[i] ? vertices++ : present[at(n)];
    most = std::max({most, problem.nodes[at(n)].load, problem.nodes[at(n)].compute});
  }
  // Enough digits for costs that differ by a billion times, and sums far below what is infinite.
  const double scale = most > 0 ? 0x1p40 / most : 1;
  const auto capacity = [&](double cost) { return static_cast<std::int64_t>(cost * scale); };
  const int source = vertices, sink = vertices + 1;
  MinCut network(vertices + 2);
  for (std::size_t i = 0; i < cone.nodes.size(); ++i) {
    const auto n = at(cone.nodes[i]);
    const Node &node = problem.nodes[n];
    if (cone.loaded[i]) {
      network.add(present[n], sink, capacity(node.load));
      continue;
    }
    if (computed[n] != present[n]) {
      network.add(present[n], computed[n], capacity(node.load));
      network.add(computed[n], present[n], MinCut::kInfinite);
    }
    network.add(computed[n], sink, capacity(node.compute));
    for (const int input : node.inputs) network.add(computed[n], present[at(input)], MinCut::kInfinite);
  }
  for (const int read : reader.reads) network.add(source, present[at(read)], MinCut::kInfinite);
  const std::vector<bool> chosen = network.solve(source, sink);
  std::vector<Use> uses(problem.nodes.size(), Use::pruned);
  for (std::size_t i = 0; i < cone.nodes.size(); ++i) {
    const auto n = at(cone.nodes[i]);
    if (!chosen[at(present[n])]) continue;
    uses[n] = !cone.loaded[i] && chosen[at(computed[n])] ? Use::computed : Use::loaded;
  }
  return uses;
}

/// Fills in what follows from the set and the uses.
void add_up(const Problem &problem, Solution &solution) {
  double passes = 0;
  for (std::size_t r = 0; r < problem.readers.size(); ++r)
    passes += problem.readers[r].passes * use_seconds(problem, solution.uses[r]);
  solution.bytes = 0;
  for (std::size_t n = 0; n < problem.nodes.size(); ++n)
    if (solution.materialised[n]) solution.bytes += problem.records * problem.nodes[n].bytes;
  solution.seconds = solution.bound = problem.records * (making(problem, solution.materialised) + passes);
}

} // namespace

std::vector<Use> pass_uses(const Problem &problem, const Reader &reader,
                           const std::vector<bool> &materialised) {
  const Cone cone = cone_of(problem, reader, materialised);
  if (cone.open) return cut(problem, reader, materialised, cone);
  std::vector<Use> uses(problem.nodes.size(), Use::pruned);
  for (std::size_t i = 0; i < cone.nodes.size(); ++i)
    uses[at(cone.nodes[i])] = cone.loaded[i] ? Use::loaded : Use::computed;
  return uses;
}

double use_seconds(const Problem &problem, const std::vector<Use> &uses) {
  double seconds = 0;
  for (std::size_t n = 0; n < uses.size(); ++n) {
    if (uses[n] == Use::computed) seconds += problem.nodes[n].compute;
    if (uses[n] == Use::loaded) seconds += problem.nodes[n].load;
  }
  return seconds;
}

double pass_seconds(const Problem &problem, const Reader &reader, const std::vector<bool> &materialised) {
  return use_seconds(problem, pass_uses(problem, reader, materialised));
}

Solution evaluate(const Problem &problem, const std::vector<bool> &materialised) {
  Solution solution;
  solution.materialised = materialised;
  for (const Reader &reader : problem.readers)
    solution.uses.push_back(pass_uses(problem, reader, materialised));
  add_up(problem, solution);
  return solution;
}

Solution evaluate(const Problem &problem, const Solution &before, int added) {
  Solution solution = before;
  solution.materialised[at(added)] = true;
  // A reader that neither computes nor loads a value has no use for it on disk either.
  for (std::size_t r = 0; r < problem.readers.size(); ++r)
    if (before.uses[r][at(added)] != Use::pruned)
      solution.uses[r] = pass_uses(problem, problem.readers[r], solution.materialised);
  add_up(problem, solution);
  return solution;
}

} // namespace tl::reuse
