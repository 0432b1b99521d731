#include "profile/anchors.h"

#include "cli/error.h"
#include "graph/flops.h"

#include <algorithm>
#include <numeric>

namespace tl::profile {

namespace {
constexpr std::size_t kAnchors = 5;

std::unique_ptr<model::FrozenProgram> program(const model::Model &model, const graph::Cut &from,
                                              const graph::Cut &to, graph::Execution execution) {
  check_interrupt();
  return std::make_unique<model::FrozenProgram>(model, from.values, to.values, execution);
}
} // namespace

std::vector<Anchor> make_anchors(const model::Model &model, const std::vector<graph::Cut> &borders,
                                 graph::Execution execution) {
  std::vector<double> work = {0}; // up to each border
  for (std::size_t i = 1; i < borders.size(); ++i) {
    work.push_back(work.back());
    for (int n = borders[i - 1].position; n < borders[i].position; ++n)
      work.back() += graph::flops(model.graph, model.graph.nodes[static_cast<std::size_t>(n)]);
  }
  std::vector<Anchor> anchors;
  for (std::size_t i = 1; i < borders.size(); ++i) {
    const bool last = i + 1 == borders.size();
    const double share = static_cast<double>(anchors.size() + 1) / kAnchors;
    if (!last && work[i] < share * work.back()) continue;
    Anchor anchor;
    anchor.parts = i;
    anchor.prefix = program(model, borders.front(), borders[i], execution);
    if (!last) anchor.suffix = program(model, borders[i], borders.back(), execution);
    anchors.push_back(std::move(anchor));
  }
  return anchors;
}

std::vector<double> fit_parts(std::vector<double> parts, const std::vector<std::size_t> &counts,
                              const std::vector<double> &totals) {
  const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
  const double usual = totals.back() / std::max(all, 1e-9);
  double scaled = 0, before = 0;
  std::size_t first = 0;
  for (std::size_t a = 0; a < counts.size(); ++a) {
    const double until = std::max(totals[a], before);
    double sum = 0;
    for (std::size_t i = first; i < counts[a]; ++i) sum += parts[i];
    // The difference of two disturbed measurements must not make a part free, nor dear beyond reason.
    const double factor = std::clamp((until - before) / std::max(sum, 1e-9), 0.6 * usual, 1.6 * usual);
    for (; first < counts[a]; ++first) parts[first] *= factor;
    scaled += factor * sum;
    before = until;
  }
  for (double &part : parts) part *= totals.back() / std::max(scaled, 1e-9);
  return parts;
}

} // namespace tl::profile
