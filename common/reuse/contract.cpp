#include "reuse/contract.h"

#include "runtime/at.h"

#include <algorithm>

namespace tl::reuse {

namespace {

std::vector<bool> needed(const Problem &problem) {
  std::vector<bool> result(problem.nodes.size());
  for (const Reader &reader : problem.readers)
    for (const int read : reader.reads) result[at(read)] = true;
  for (std::size_t n = result.size(); n-- > 0;)
    if (result[n])
      for (const int input : problem.nodes[n].inputs) result[at(input)] = true;
  return result;
}

void add_once(std::vector<int> &list, int id) {
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

/// For each node, its consumers; -1 stands for readers.
std::vector<std::vector<int>> consumers(const Problem &problem, const std::vector<bool> &wanted) {
  std::vector<std::vector<int>> result(problem.nodes.size());
  for (const Reader &reader : problem.readers)
    for (const int read : reader.reads) result[at(read)] = {-1};
  for (std::size_t n = 0; n < problem.nodes.size(); ++n)
    if (wanted[n])
      for (const int input : problem.nodes[n].inputs) result[at(input)].push_back(static_cast<int>(n));
  return result;
}

/// `consumer` is the last of a group that alone uses `node`.
bool dominated(const Node &node, const Node &consumer) {
  if (!node.storable) return true; // computed exactly when the group is
  return consumer.storable && consumer.bytes <= node.bytes && consumer.load <= node.load &&
         consumer.write <= node.write && consumer.there >= node.there;
}

} // namespace

Contracted contract(const Problem &problem) {
  const std::vector<bool> wanted = needed(problem);
  const std::vector<std::vector<int>> users = consumers(problem, wanted);
  // Backwards, so that a group ends at its last node.
  std::vector<int> into(problem.nodes.size(), -1); // the last node of the group that each is in
  for (std::size_t n = problem.nodes.size(); n-- > 0;) {
    if (!wanted[n]) continue;
    into[n] = static_cast<int>(n);
    if (users[n].front() < 0) continue;
    const int group = into[at(users[n].front())];
    const bool one =
        std::all_of(users[n].begin(), users[n].end(), [&](int user) { return into[at(user)] == group; });
    if (one && dominated(problem.nodes[n], problem.nodes[at(group)])) into[n] = group;
  }

  Contracted result;
  result.problem.records = problem.records;
  result.problem.budget = problem.budget;
  result.node_of.assign(problem.nodes.size(), -1);
  for (std::size_t n = 0; n < problem.nodes.size(); ++n) {
    if (into[n] != static_cast<int>(n)) continue;
    result.node_of[n] = static_cast<int>(result.kept.size());
    result.kept.push_back(static_cast<int>(n));
    result.problem.nodes.push_back(problem.nodes[n]);
    result.problem.nodes.back().inputs.clear();
    result.problem.nodes.back().compute = 0;
  }
  for (std::size_t n = 0; n < problem.nodes.size(); ++n) {
    if (into[n] < 0) continue;
    const int here = result.node_of[at(into[n])];
    result.node_of[n] = here;
    Node &node = result.problem.nodes[at(here)];
    node.compute += problem.nodes[n].compute;
    for (const int input : problem.nodes[n].inputs)
      if (into[at(input)] != into[n]) add_once(node.inputs, result.node_of[at(into[at(input)])]);
  }
  for (const Reader &reader : problem.readers) {
    Reader changed = reader;
    for (int &read : changed.reads) read = result.node_of[at(read)];
    result.problem.readers.push_back(std::move(changed));
  }
  return result;
}

} // namespace tl::reuse
