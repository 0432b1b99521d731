// A network as a DAG of values: the form in which every program but the executor sees a model.
//
// It knows nothing of LibTorch. model/lower.h makes it from TorchScript and model/build.h turns a
// part of it back into something that runs. A profile carries the whole graph as JSON, so that
// tl-split plans without loading a model.
//
// A graph is straight-line: no branch, no loop, no mutation. Nodes are in a topological order (the
// order in which the program ran); a value is the output of one node, value 0 is the model's input.
#pragma once

#include "runtime/hash.h"
#include "runtime/tensor.h"
#include "json/document.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tl::graph {

using ValueId = int;

/// A tensor that is neither trained nor named by the module tree: a position table, a mask.
struct TensorConstant {
  DType dtype = DType::f32;
  Shape shape;
  Digest content;
};

/// A literal operand of an operator. The alternatives, in order: None; bool; int; float; str
/// (also devices, as "device:cpu"); lists; an index into Graph::constants.
struct TensorIndex {
  int index = 0;
  friend bool operator==(TensorIndex a, TensorIndex b) { return a.index == b.index; }
};
using Constant = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                              std::vector<std::int64_t>, std::vector<double>, std::vector<bool>, TensorIndex>;

/// What an operator is applied to.
struct Operand {
  enum class Kind { value, parameter, constant };
  Kind kind = Kind::constant;
  int index = 0; // a ValueId, or an index into Graph::parameters
  Constant constant;

  static Operand of_value(ValueId id) { return {Kind::value, id, {}}; }
  static Operand of_parameter(int id) { return {Kind::parameter, id, {}}; }
  static Operand of(Constant c) { return {Kind::constant, 0, std::move(c)}; }
};

/// One application of a TorchScript operator, named as LibTorch names it.
struct Node {
  std::string op;     // "aten::conv2d", "prim::ListConstruct"
  std::string module; // path of the module whose code applies it: "layer4.1"
  std::vector<Operand> inputs;
  std::vector<ValueId> outputs;
};

enum class ValueKind { tensor, tensor_list, integer, real, boolean, integer_list };

struct Value {
  std::string name;                 // "layer3.5": unique and stable across exports
  std::vector<std::string> aliases; // other names of the same value: "layer3", "layer3.5.relu:3"
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::f32; // of a tensor
  Shape shape;              // of a tensor, for one record: without the batch dimension
  bool batched = true;      // its first dimension is the batch; only such values can be cut
  int node = -1;            // producer; -1: the model's input
  Digest hash;              // see compute_hashes

  std::int64_t bytes() const { return element_count(shape) * static_cast<std::int64_t>(size_of(dtype)); }
};

struct Parameter {
  std::string name;              // "layer4.1.conv2.weight"
  std::vector<std::string> tied; // other names of the same storage
  DType dtype = DType::f32;
  Shape shape;
  bool buffer = false;    // running statistics and the like: never trained
  bool trainable = false; // set by apply_scheme
  bool fresh = false;     // of a new head or adapter: has no contents yet, the trainer draws them
  bool zero = false;      // fresh, and starts at 0
  Digest content;         // hash of dtype, shape and bytes; zero when fresh

  std::int64_t bytes() const { return element_count(shape) * static_cast<std::int64_t>(size_of(dtype)); }
};

struct Graph {
  std::vector<Value> values; // [0] is the input
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;
  std::vector<TensorConstant> constants;
  ValueId output = 0;

  const Value &input() const { return values[0]; }
  /// By name or alias; throws Error with the nearest names if there is none.
  ValueId find(const std::string &name) const;
  /// For each value, the nodes that read it, in order.
  std::vector<std::vector<int>> readers() const;
};

/// Gives every value its Merkle hash: operator, constants, contents of the parameters it reads, and
/// the hashes of its inputs. The input hashes by `preprocessing` (Preprocess::digest) and its shape.
/// Equal hash = equal value for equal records, whatever file or module the nodes came from.
/// Values that depend on a fresh parameter have no stable content: they hash by its name and shape.
/// Independent of names, of the order of the nodes, of dead nodes and of flags that only choose a
/// kernel (cudnn, TF32).
void compute_hashes(Graph &graph, const Digest &preprocessing);

/// The same for the outputs of one node, whose inputs have their hashes: for nodes added later.
void hash_node(Graph &graph, int node);

/// For each value: true if it depends on the model's input. The others (reshaped weights, position
/// tables) can be computed anywhere.
std::vector<bool> depends_on_input(const Graph &graph);

/// Drops the nodes that the output does not need, and parameters, constants and values with them.
void prune(Graph &graph);

/// Throws FormatError unless ids are in range, nodes in topological order and names unique.
void check(const Graph &graph);

json::Value to_json(const Graph &graph);
/// `origin` names the document in errors. Calls check().
Graph from_json(const json::Value &document, const std::string &origin);

} // namespace tl::graph
