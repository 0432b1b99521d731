#include "graph/block.h"

#include "cli/error.h"
#include "graph/pool.h"
#include "runtime/at.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace tl::graph {

namespace {

using Path = std::vector<std::string>;

Path path_of(const std::string &name) {
  Path path;
  std::istringstream stream(name);
  for (std::string part; std::getline(stream, part, '.');) path.push_back(part);
  return path;
}

std::string joined(const Path &path, std::size_t parts) {
  std::string name;
  for (std::size_t i = 0; i < std::min(parts, path.size()); ++i) name += (i ? "." : "") + path[i];
  return name;
}

/// A node that applies parameters to data.
struct Layer {
  int node = 0;
  Path module;
  std::vector<int> parameters;
};

/// Trainable parameters that each node applies to data, also through operators on parameters alone
/// (aten::t(weight)).
std::vector<std::vector<int>> applied_parameters(const Graph &graph, int nodes) {
  const std::vector<bool> depends = depends_on_input(graph);
  std::vector<std::vector<int>> through(graph.values.size()), applied(at(nodes));
  for (int n = 0; n < nodes; ++n) {
    const Node &node = graph.nodes[at(n)];
    std::set<int> found;
    for (const Operand &operand : node.inputs) {
      if (operand.kind == Operand::Kind::parameter && !graph.parameters[at(operand.index)].buffer)
        found.insert(operand.index);
      if (operand.kind == Operand::Kind::value)
        found.insert(through[at(operand.index)].begin(), through[at(operand.index)].end());
    }
    const bool data =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return depends[at(id)]; });
    if (data) applied[at(n)].assign(found.begin(), found.end());
    if (data) continue;
    for (const ValueId out : node.outputs) through[at(out)].assign(found.begin(), found.end());
  }
  return applied;
}

/// The module that all of the parameters are in, by their names: a file of save_model() has no other.
Path common_module(const Graph &graph, const std::vector<int> &parameters) {
  Path common;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Path path = path_of(graph.parameters[at(parameters[i])].name);
    path.pop_back();
    if (i == 0) common = path;
    const auto [end, other] = std::mismatch(common.begin(), common.end(), path.begin(), path.end());
    common.erase(end, common.end());
  }
  return common;
}

/// Which tensors pass on from each position to the nodes after it: only those that depend on the input and
/// on a parameter, and the input itself.
class Passing {
public:
  Passing(const Graph &graph, int nodes, ValueId result) : count_(at(nodes) + 2), sum_(at(nodes) + 2) {
    const std::vector<std::vector<int>> applied = applied_parameters(graph, nodes);
    std::vector<int> last(graph.values.size(), -1);
    std::vector<bool> shaped(graph.values.size(), false);
    for (int n = 0; n < nodes; ++n) {
      bool any = !applied[at(n)].empty();
      for (const Operand &operand : graph.nodes[at(n)].inputs) {
        if (operand.kind != Operand::Kind::value) continue;
        last[at(operand.index)] = n;
        any = any || shaped[at(operand.index)];
      }
      for (const ValueId out : graph.nodes[at(n)].outputs) shaped[at(out)] = any;
    }
    last[at(result)] = nodes;
    shaped[0] = true;
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      const Value &value = graph.values[id];
      const bool real = value.kind == ValueKind::tensor_list ||
                        (value.kind == ValueKind::tensor && value.dtype <= DType::bf16);
      if (real && shaped[id] && last[id] > value.node) add(static_cast<int>(id), value.node + 1, last[id]);
    }
    for (std::size_t p = 1; p < count_.size(); ++p) {
      count_[p] += count_[p - 1];
      sum_[p] += sum_[p - 1];
    }
  }

  /// The one tensor that passes before node `position`; -1 if there is none or several.
  ValueId alone(int position) const {
    return count_[at(position)] == 1 ? static_cast<ValueId>(sum_[at(position)]) : -1;
  }

private:
  /// `id` passes at the positions from `first` to `last`.
  void add(int id, int first, int last) {
    ++count_[at(first)];
    --count_[at(last) + 1];
    sum_[at(first)] += id;
    sum_[at(last) + 1] -= id;
  }

  std::vector<int> count_;
  std::vector<std::int64_t> sum_; // of ids: where one tensor passes, it is this one
};

/// A block before what follows has joined it: layers [begin, end).
struct Piece {
  std::size_t begin = 0, end = 0, depth = 0;
  bool joins = false; // belongs to the block before
};

class Finder {
public:
  Finder(const Graph &graph, int nodes, ValueId result)
      : graph_(graph), nodes_(nodes), passing_(graph, nodes, result), readers_(graph.readers()) {
    const std::vector<std::vector<int>> applied = applied_parameters(graph, nodes);
    for (int n = 0; n < nodes; ++n) {
      if (applied[at(n)].empty()) continue;
      const std::string &module = graph.nodes[at(n)].module;
      layers_.push_back(
          {n, module.empty() ? common_module(graph, applied[at(n)]) : path_of(module), applied[at(n)]});
    }
  }

  std::vector<Block> run() {
    if (layers_.empty()) return {};
    mark(0, layers_.size(), 0);
    take_apart(0, layers_.size(), 0);
    std::vector<Block> blocks;
    std::vector<int> ends; // the last node of each block's own module
    for (const Piece &piece : pieces_) {
      if (!piece.joins || blocks.empty()) {
        blocks.push_back({joined(layers_[piece.begin].module, piece.depth), {}, -1, 0});
        ends.push_back(layers_[piece.end - 1].node);
      }
      for (std::size_t i = piece.begin; i < piece.end; ++i)
        blocks.back().parameters.insert(blocks.back().parameters.end(), layers_[i].parameters.begin(),
                                        layers_[i].parameters.end());
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::vector<int> &parameters = blocks[b].parameters;
      std::sort(parameters.begin(), parameters.end());
      parameters.erase(std::unique(parameters.begin(), parameters.end()), parameters.end());
      find_output(blocks[b], ends[b]);
    }
    return blocks;
  }

private:
  /// End of the layers from `begin` on that are in the same part of the module at `depth`.
  std::size_t run_end(std::size_t begin, std::size_t end, std::size_t depth) const {
    const auto part = [&](std::size_t i) {
      const Path &path = layers_[i].module;
      return path.size() > depth ? path[depth] : std::string();
    };
    std::size_t i = begin + 1;
    while (i < end && part(i) == part(begin)) ++i;
    return i;
  }

  bool is_layer(std::size_t begin, std::size_t end, std::size_t depth) const {
    return std::all_of(layers_.begin() + std::ptrdiff_t(begin), layers_.begin() + std::ptrdiff_t(end),
                       [&](const Layer &layer) { return layer.module.size() == depth; });
  }

  /// The one tensor that passes somewhere between layer `i` and the one before; -1 if there is none.
  ValueId entry(std::size_t i) const {
    for (int position = i == 0 ? 0 : layers_[i - 1].node + 1; position <= layers_[i].node; ++position)
      if (passing_.alone(position) >= 0) return passing_.alone(position);
    return -1;
  }

  /// True if what enters the layers [begin, end), a part of the module at `depth`, is read behind them and
  /// outside of the part, too: a shortcut around it. The names of values tell where a node is, in any file.
  bool passed_by(std::size_t begin, std::size_t end, std::size_t depth, ValueId input) const {
    const std::string part = joined(layers_[begin].module, depth + 1);
    const auto inside = [&](const std::string &name) {
      return name == part || name.rfind(part + ".", 0) == 0;
    };
    return std::any_of(readers_[at(input)].begin(), readers_[at(input)].end(), [&](int n) {
      return n > layers_[end - 1].node && n < nodes_ &&
             !inside(graph_.values[at(graph_.nodes[at(n)].outputs[0])].name);
    });
  }

  bool is_chain(std::size_t begin, std::size_t end, std::size_t depth) const {
    for (std::size_t i = begin, next = 0; i < end; i = next) {
      next = run_end(i, end, depth);
      const ValueId input = entry(i);
      if (input < 0 && i > begin) return false;
      if (input >= 0 && layers_[i].module.size() > depth && passed_by(i, next, depth, input)) return false;
    }
    return true;
  }

  std::string family(std::size_t layer, std::size_t depth) const {
    return std::to_string(depth) + " " + joined(layers_[layer].module, depth < 2 ? 0 : depth - 2);
  }

  /// Notes the families of the modules that are no chains.
  void mark(std::size_t begin, std::size_t end, std::size_t depth) {
    if (is_layer(begin, end, depth)) return;
    if (!is_chain(begin, end, depth)) {
      families_.insert(family(begin, depth));
      return;
    }
    for (std::size_t i = begin, next = 0; i < end; i = next) {
      next = run_end(i, end, depth);
      if (layers_[i].module.size() > depth) mark(i, next, depth + 1);
    }
  }

  void take_apart(std::size_t begin, std::size_t end, std::size_t depth) {
    if (is_layer(begin, end, depth)) {
      const bool vectors =
          std::all_of(layers_.begin() + std::ptrdiff_t(begin), layers_.begin() + std::ptrdiff_t(end),
                      [&](const Layer &layer) {
                        return std::all_of(layer.parameters.begin(), layer.parameters.end(),
                                           [&](int p) { return graph_.parameters[at(p)].shape.size() <= 1; });
                      });
      pieces_.push_back({begin, end, depth, vectors});
      return;
    }
    if (families_.count(family(begin, depth)) > 0) {
      pieces_.push_back({begin, end, depth, false});
      return;
    }
    for (std::size_t i = begin, next = 0; i < end; i = next) {
      next = run_end(i, end, depth);
      if (layers_[i].module.size() > depth)
        take_apart(i, next, depth + 1);
      else
        pieces_.push_back({i, next, depth, true});
    }
  }

  void find_output(Block &block, int last) const {
    int position = last + 1;
    while (position <= nodes_ && passing_.alone(position) < 0) ++position;
    if (position > nodes_) return;
    const auto continues = [&](int n) {
      const Node &node = graph_.nodes[at(n)];
      return passing_.alone(n + 1) == node.outputs[0] &&
             (node.op == "aten::batch_norm" || is_activation(node.op));
    };
    while (position < nodes_ && continues(position)) ++position;
    block.output = passing_.alone(position);
    block.position = position;
  }

  const Graph &graph_;
  int nodes_;
  Passing passing_;
  std::vector<std::vector<int>> readers_; // of each value
  std::vector<Layer> layers_;
  std::set<std::string> families_; // of modules that are blocks: their depth and grandparent
  std::vector<Piece> pieces_;
};

} // namespace

std::vector<Block> find_blocks(const Graph &graph, int nodes, ValueId result) {
  return Finder(graph, nodes, result).run();
}

std::size_t first_of_last(const std::vector<Block> &blocks, std::int64_t wanted, const std::string &option) {
  const auto have = static_cast<std::int64_t>(blocks.size());
  if (have == 0) throw UsageError(option + ": nothing below the head has parameters");
  if (wanted > have)
    throw UsageError(option + (have == 1 ? ": there is only one block, '" + blocks.front().name + "'"
                                         : ": there are only " + std::to_string(have) + " blocks, from '" +
                                               blocks.front().name + "' to '" + blocks.back().name + "'"));
  return wanted == 0 ? 0 : static_cast<std::size_t>(have - wanted);
}

} // namespace tl::graph
