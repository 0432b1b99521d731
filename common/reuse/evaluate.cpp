#include "reuse/materialise.h"
#include "reuse/min_cut.h"

#include <algorithm>

namespace tl::reuse {

namespace {

std::size_t at(int id) { return static_cast<std::size_t>(id); }

/// What making the materialised values takes, for one record: all that they are computed from, once, and
/// writing.
double making(const Problem &problem, const std::vector<bool> &materialised) {
  std::vector<bool> computed = materialised;
  double seconds = 0;
  for (std::size_t n = problem.nodes.size(); n-- > 0;) {
    if (materialised[n]) seconds += problem.nodes[n].write;
    if (!computed[n]) continue;
    seconds += problem.nodes[n].compute;
    for (const int input : problem.nodes[n].inputs) computed[at(input)] = true;
  }
  return seconds;
}

/// Nodes that the reader may need, as numbers in order.
std::vector<int> cone(const Problem &problem, const Reader &reader) {
  std::vector<bool> in(problem.nodes.size());
  for (const int read : reader.reads) in[at(read)] = true;
  for (std::size_t n = in.size(); n-- > 0;)
    if (in[n])
      for (const int input : problem.nodes[n].inputs) in[at(input)] = true;
  std::vector<int> nodes;
  for (std::size_t n = 0; n < in.size(); ++n)
    if (in[n]) nodes.push_back(static_cast<int>(n));
  return nodes;
}

/// The cheapest uses for one reader: a choice of "present" and "computed" for each node in which computing
/// needs its inputs present, and what is present but not computed is loaded. As a minimum cut, each node is
/// an arc from present to computed (its load) and on to the sink (its computation).
std::vector<Use> uses_of(const Problem &problem, const Reader &reader,
                         const std::vector<bool> &materialised) {
  const std::vector<int> nodes = cone(problem, reader);
  std::vector<int> place(problem.nodes.size(), -1);
  double most = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node &node = problem.nodes[at(nodes[i])];
    place[at(nodes[i])] = static_cast<int>(i);
    most = std::max({most, node.load, node.compute});
  }
  // Enough digits for costs that differ by a billion times, and sums far below what is infinite.
  const double scale = most > 0 ? 0x1p40 / most : 1;
  const auto capacity = [&](double cost) { return static_cast<std::int64_t>(cost * scale); };
  const auto present = [&](int node) { return 2 * place[at(node)]; };
  const auto computed = [&](int node) { return 2 * place[at(node)] + 1; };
  const int source = 2 * static_cast<int>(nodes.size()), sink = source + 1;
  MinCut network(sink + 1);
  for (const int n : nodes) {
    const Node &node = problem.nodes[at(n)];
    network.add(present(n), computed(n), materialised[at(n)] ? capacity(node.load) : MinCut::kInfinite);
    network.add(computed(n), sink, capacity(node.compute));
    network.add(computed(n), present(n), MinCut::kInfinite);
    for (const int input : node.inputs) network.add(computed(n), present(input), MinCut::kInfinite);
  }
  for (const int read : reader.reads) network.add(source, present(read), MinCut::kInfinite);
  const std::vector<bool> chosen = network.solve(source, sink);
  std::vector<Use> uses(problem.nodes.size(), Use::pruned);
  for (const int n : nodes)
    if (chosen[at(present(n))]) uses[at(n)] = chosen[at(computed(n))] ? Use::computed : Use::loaded;
  return uses;
}

/// Fills in what follows from the set and the uses.
void add_up(const Problem &problem, Solution &solution) {
  double passes = 0;
  for (std::size_t r = 0; r < problem.readers.size(); ++r)
    for (std::size_t n = 0; n < problem.nodes.size(); ++n) {
      const Node &node = problem.nodes[n];
      const Use use = solution.uses[r][n];
      passes += problem.readers[r].passes * (use == Use::computed ? node.compute
                                             : use == Use::loaded ? node.load
                                                                  : 0);
    }
  solution.bytes = 0;
  for (std::size_t n = 0; n < problem.nodes.size(); ++n)
    if (solution.materialised[n]) solution.bytes += problem.records * problem.nodes[n].bytes;
  solution.seconds = solution.bound = problem.records * (making(problem, solution.materialised) + passes);
}

} // namespace

Solution evaluate(const Problem &problem, const std::vector<bool> &materialised) {
  Solution solution;
  solution.materialised = materialised;
  for (const Reader &reader : problem.readers)
    solution.uses.push_back(uses_of(problem, reader, materialised));
  add_up(problem, solution);
  return solution;
}

Solution evaluate(const Problem &problem, const Solution &before, int added) {
  Solution solution = before;
  solution.materialised[at(added)] = true;
  // A reader that neither computes nor loads a value has no use for it on disk either.
  for (std::size_t r = 0; r < problem.readers.size(); ++r)
    if (before.uses[r][at(added)] != Use::pruned)
      solution.uses[r] = uses_of(problem, problem.readers[r], solution.materialised);
  add_up(problem, solution);
  return solution;
}

} // namespace tl::reuse
