#include "select/shared_graph.h"

#include <algorithm>
#include <map>

namespace tl::select {

SharedGraphs share(const std::vector<Candidate> &candidates) {
  SharedGraphs shared;
  std::map<Digest, std::size_t> by_input;
  for (const Candidate &candidate : candidates) {
    const Prepared &prepared = *candidate.prepared;
    const auto [found, added] = by_input.emplace(prepared.model.graph.input().hash, shared.graphs.size());
    if (added)
      shared.graphs.push_back({std::make_shared<MultiModel>(prepared.model), prepared.preprocess, {}});
    SharedGraph &graph = shared.graphs[found->second];
    graph.merged->add(prepared.model, prepared.inputs);
    shared.of.push_back(found->second);
    shared.reads.emplace_back();
    for (std::size_t i = 0; i < prepared.inputs.size(); ++i)
      shared.reads.back().push_back(graph.merged->find(prepared.input(i).hash));
    graph.wanted.insert(graph.wanted.end(), shared.reads.back().begin(), shared.reads.back().end());
  }
  for (SharedGraph &graph : shared.graphs) {
    std::sort(graph.wanted.begin(), graph.wanted.end());
    graph.wanted.erase(std::unique(graph.wanted.begin(), graph.wanted.end()), graph.wanted.end());
  }
  return shared;
}

} // namespace tl::select
