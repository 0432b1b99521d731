// A transfer scheme: what is trained on top of a pretrained graph, and what stays frozen.
#pragma once

#include "graph/graph.h"

namespace tl::graph {

/// How a value of any shape becomes one vector per record for the head.
enum class Pool {
  automatic, // by the value: none for vectors, mean for maps, class token or mean for sequences
  none,
  mean,        // over space (maps, channels first or last as the graph shows) or over the sequence
  class_token, // element 0 of the sequence
};

/// "auto", "none", "mean", "class-token".
std::string_view name_of(Pool pool);
/// Throws UsageError that lists the names.
Pool pool_from_name(std::string_view name);

/// A new classifier: linear, or an MLP with ReLU between its layers.
struct Head {
  std::vector<std::int64_t> hidden; // empty: linear

  /// "linear", "mlp:256", "mlp:512,128". Throws UsageError.
  static Head parse(const std::string &text);
  std::string text() const;
};

/// Bottleneck adapters (Houlsby et al., ICML 2019, section 2.1): after a block's output x, which then is
/// x + up(relu(down(x))), over the channels of a map and the width of a sequence. `up` starts at zero, so
/// that an untrained adapter changes nothing.
struct Adapters {
  std::int64_t width = 0;  // of the bottleneck
  std::int64_t blocks = 0; // the last ones; 0: all

  /// "64", "64:4". Throws UsageError.
  static Adapters parse(const std::string &text);
  std::string text() const;
};

struct Scheme {
  std::optional<Head> head; // replaces the final classifier
  /// Names of the values the head reads; empty: the classifier's input. "A+B": each pooled, one after the
  /// other; "sum:A+B": each pooled, added.
  std::string features;
  Pool pool = Pool::automatic;
  std::string train;         // ECMAScript regular expression over parameter names; empty: none
  std::int64_t unfreeze = 0; // the last blocks (block.h), whose parameters train
  std::optional<Adapters> adapters;
};

json::Value to_json(const Scheme &scheme);
Scheme scheme_from_json(const json::Value &document, const std::string &origin);

/// The value that a new head reads when the scheme names none: the input of the last operator with
/// parameters if that is the classifier (a linear layer; or a 1x1 convolution behind dropout or in a
/// module named like one), else the output (the file holds a backbone without classifier).
ValueId classifier_input(const Graph &graph);

/// The graph that is trained: the old classifier replaced by pooling and the new head (parameters
/// "head.0.weight", ...; values "head.pool", "head.0", ..., all named below "head"), adapters put in
/// (below "adapters"), `trainable` set on every parameter, what is no longer needed pruned, and the
/// frozen nodes moved before the others, so that a cut can take all of them. Several values are pooled
/// to "head.pool.0", ... and joined in "head.pool". If the model uses the name "head" itself, the new one
/// is called "head2". Blocks are counted in what is left below a new head, or in the whole model. Throws
/// UsageError if `train` matches nothing, if nothing would be trained, if there are fewer blocks, if
/// without a new head the output is not one vector of `classes` per record, or if the pooling does
/// not fit the value.
Graph apply_scheme(const Graph &graph, const Scheme &scheme, std::int64_t classes);

/// For each value: true if it depends on no trainable parameter. Batch-norm statistics count as
/// trainable where the layer's affine parameters are.
std::vector<bool> frozen(const Graph &graph);

/// True if the node is a batch-norm that trains: its affine parameters are trainable, so its batch
/// statistics are used and its running statistics updated.
bool trains_batch_norm(const Graph &graph, const Node &node);

} // namespace tl::graph
