#include "graph/adapter.h"

#include "cli/error.h"
#include "graph/builder.h"
#include "graph/pool.h"
#include "runtime/at.h"

#include <algorithm>

namespace tl::graph {

namespace {

using Ints = std::vector<std::int64_t>;

/// One layer of an adapter: over the channels of a map, or the last dimension.
ValueId add_layer(const Graph &graph, Builder &builder, ValueId from, std::int64_t width, bool map, bool zero,
                  const std::string &name) {
  const Value value = graph.values[at(from)]; // a copy: adding nodes moves the values
  Shape shape = value.shape;
  std::int64_t &channels = map ? shape.front() : shape.back();
  const Shape kernel = map ? Shape{width, channels, 1, 1} : Shape{width, channels};
  channels = width;
  const Operand weight = builder.fresh(name + ".weight", value.dtype, kernel, zero);
  const Operand bias = builder.fresh(name + ".bias", value.dtype, {width}, zero);
  if (!map)
    return builder.add("aten::linear", {Operand::of_value(from), weight, bias}, name, value.dtype, shape);
  return builder.add("aten::conv2d",
                     {Operand::of_value(from), weight, bias, Operand::of(Ints{1, 1}), Operand::of(Ints{0, 0}),
                      Operand::of(Ints{1, 1}), Operand::of(std::int64_t{1})},
                     name, value.dtype, shape);
}

/// Nodes that compute x + up(relu(down(x))), at the end of the graph.
ValueId add_adapter(Graph &graph, ValueId x, std::int64_t width, const std::string &name) {
  Builder builder(graph, name);
  const Value value = graph.values[at(x)];
  const bool map = value.shape.size() == 3 && !channels_last(graph, x);
  const std::int64_t channels = map ? value.shape.front() : value.shape.back();
  const ValueId down = add_layer(graph, builder, x, width, map, false, name + ".down");
  const ValueId active = builder.add("aten::relu", {Operand::of_value(down)}, name + ".relu", value.dtype,
                                     graph.values[at(down)].shape);
  const ValueId up = add_layer(graph, builder, active, channels, map, true, name + ".up");
  return builder.add("aten::add", {Operand::of_value(x), Operand::of_value(up), Operand::of(std::int64_t{1})},
                     name, value.dtype, value.shape);
}

/// Moves the nodes from `first` to the end of the graph in front of `position`.
void move_nodes(Graph &graph, std::size_t first, std::size_t position) {
  std::rotate(graph.nodes.begin() + std::ptrdiff_t(position), graph.nodes.begin() + std::ptrdiff_t(first),
              graph.nodes.end());
  for (std::size_t n = position; n < graph.nodes.size(); ++n)
    for (const ValueId out : graph.nodes[n].outputs) graph.values[at(out)].node = static_cast<int>(n);
}

void check_output(const Graph &graph, const Block &block) {
  const bool fits = block.output >= 0 && graph.values[at(block.output)].kind == ValueKind::tensor &&
                    graph.values[at(block.output)].batched && !graph.values[at(block.output)].shape.empty() &&
                    graph.values[at(block.output)].shape.size() <= 3;
  if (!fits)
    throw UsageError("an adapter cannot follow block '" + block.name +
                     "': its output is not one vector, sequence of vectors or map for a record");
}

} // namespace

void add_adapters(Graph &graph, const Adapters &adapters, const std::vector<Block> &blocks) {
  const std::size_t first = first_of_last(blocks, adapters.blocks, "--adapters " + adapters.text());
  const std::string module = free_name(graph, "adapters");
  for (std::size_t b = blocks.size(); b-- > first;) { // from the end: what is before keeps its place
    const Block &block = blocks[b];
    check_output(graph, block);
    const std::size_t old = graph.nodes.size();
    const ValueId adapted =
        add_adapter(graph, block.output, adapters.width, module + "." + std::to_string(b));
    const std::size_t added = graph.nodes.size() - old;
    move_nodes(graph, old, at(block.position));
    for (std::size_t n = at(block.position) + added; n < graph.nodes.size(); ++n)
      for (Operand &operand : graph.nodes[n].inputs)
        if (operand.kind == Operand::Kind::value && operand.index == block.output) operand.index = adapted;
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) hash_node(graph, static_cast<int>(n));
}

} // namespace tl::graph
