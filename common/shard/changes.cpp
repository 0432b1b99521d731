#include "shard/changes.h"

namespace tl::shard {

json::Value to_json(const Changes &changes) {
  return {{"added", changes.added},     {"changed", changes.changed}, {"relabelled", changes.relabelled},
          {"renamed", changes.renamed}, {"removed", changes.removed}, {"unchanged", changes.unchanged}};
}

} // namespace tl::shard
