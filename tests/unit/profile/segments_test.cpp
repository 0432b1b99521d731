// Segments: all of the network, each once, none that tears apart what runs fused.
#include "model/model.h"
#include "profile/runs.h"
#include "profile/segments.h"
#include "support/files.h"
#include "support/graphs.h"
#include "support/models.h"

#include <doctest/doctest.h>

#include <random>

using namespace tl;

namespace {

void check_whole(const graph::Graph &graph) {
  const std::vector<graph::Cut> borders = profile::choose_borders(graph);
  REQUIRE(borders.size() >= 2);
  CHECK(borders.front().position == 0);
  CHECK(borders.front().values == std::vector<graph::ValueId>{0});
  CHECK(borders.back().position == static_cast<int>(graph.nodes.size()));
  CHECK(borders.back().values == std::vector<graph::ValueId>{graph.output});
  for (std::size_t i = 1; i < borders.size(); ++i) CHECK(borders[i].position > borders[i - 1].position);
}

int segment_of(const std::vector<graph::Cut> &borders, int node) {
  int segment = -1;
  for (const graph::Cut &border : borders)
    if (border.position <= node) ++segment;
  return segment;
}

} // namespace

TEST_CASE("segments cover every graph") {
  check_whole(test::chain());
  check_whole(test::residual());
  check_whole(test::dense());
  check_whole(test::transformer(true));
  check_whole(test::transformer(false));
  std::mt19937 random(3);
  int checked = 0;
  for (int i = 0; i < 200; ++i) {
    const graph::Graph graph = test::random_dag(random, 12);
    if (!graph::depends_on_input(graph)[static_cast<std::size_t>(graph.output)]) continue;
    check_whole(graph);
    ++checked;
  }
  CHECK(checked > 100);
}

TEST_CASE("a batch-norm and an activation stay with their convolution") {
  test::TempFolder folder;
  const model::Model model =
      model::load_model(test::save(test::conv_net(), folder.path("m.pt")), test::kPicture, Digest());
  const std::vector<graph::Cut> borders = profile::choose_borders(model.graph);
  check_whole(model.graph);
  CHECK(borders.size() > 3);
  int checked = 0;
  for (std::size_t n = 1; n < model.graph.nodes.size(); ++n) {
    const std::string &op = model.graph.nodes[n].op;
    if (op.find("batch_norm") == std::string::npos && op.find("relu") == std::string::npos) continue;
    CHECK(segment_of(borders, static_cast<int>(n)) == segment_of(borders, static_cast<int>(n) - 1));
    ++checked;
  }
  CHECK(checked >= 6);
}

TEST_CASE("a block with most of the work is divided at several tensors") {
  // In the residual network nearly everything is inside of one block: no one-tensor border there.
  const graph::Graph graph = test::residual();
  std::size_t most = 0;
  for (const graph::Cut &border : profile::choose_borders(graph)) most = std::max(most, border.values.size());
  CHECK(most >= 2);
}

TEST_CASE("runs pass on what later ones and the caller need, and nothing that is not a row for each record") {
  for (const graph::Graph &graph :
       {test::chain(), test::residual(), test::dense(), test::transformer(true), test::transformer(false)})
    for (const std::size_t most : {1, 3, 100}) {
      std::vector<graph::ValueId> wanted = {graph.output};
      for (const graph::Cut &cut : graph::enumerate_cuts(graph, std::vector<bool>(graph.values.size(), true)))
        wanted.push_back(cut.values.back());
      std::vector<bool> made(graph.values.size());
      made[0] = true;
      int next = 0;
      for (const profile::Run &run : profile::choose_runs(graph, wanted, most)) {
        CHECK(run.first == next);
        CHECK(run.last > run.first);
        next = run.last;
        for (const graph::ValueId id : run.inputs) CHECK(made[static_cast<std::size_t>(id)]);
        for (const graph::ValueId id : run.outputs) {
          const graph::Value &value = graph.values[static_cast<std::size_t>(id)];
          CHECK(value.node >= run.first);
          CHECK(value.node < run.last);
          CHECK(value.batched);
          made[static_cast<std::size_t>(id)] = true;
        }
      }
      CHECK(next == static_cast<int>(graph.nodes.size()));
      for (const graph::ValueId id : wanted) CHECK(made[static_cast<std::size_t>(id)]);
      if (most == 1) CHECK(profile::choose_runs(graph, wanted, most).size() == 1);
    }
}
