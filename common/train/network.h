// The compute side of a cut: which model is trained, what arrives for it, and what runs in between.
#pragma once

#include "graph/scheme.h"
#include "model/program.h"
#include "shard/shard.h"

#include <memory>
#include <string>
#include <vector>

namespace tl::train {

struct Network {
  model::Model model;                                 // under its scheme, every parameter drawn
  std::vector<graph::ValueId> arriving;               // what sources deliver
  std::vector<graph::ValueId> start;                  // where training begins: the deepest frozen cut
  std::shared_ptr<const model::FrozenProgram> frozen; // from arriving to start; null if they are the same
};

/// `cut`: names joined by '+'; "input" for preprocessed records. `seed` draws the new head. Throws
/// UsageError for an impossible scheme or cut.
Network make_network(const model::Model &pretrained, const graph::Scheme &scheme, std::int64_t classes,
                     std::uint64_t seed, const std::string &cut,
                     graph::Execution execution = graph::Execution::blocked);

/// Refuses features that were made from another model or preprocessing, or hold other tensors, than
/// the network takes: FormatError naming the features, the value, both hashes and the model.
void check_features(const Network &network, const shard::ShardMeta &meta, const std::string &origin);

/// Runs the exported model file as anybody would and compares its logits with the pipeline's, frozen
/// layers and trained layers, on `records` made-up records. Throws Error if they differ by more than
/// 1e-4 of the largest.
void verify_export(const Network &network, const model::Model &trained, const std::string &path,
                   std::int64_t records);

} // namespace tl::train
