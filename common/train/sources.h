// The kinds of RecordSource.
#pragma once

#include "data/loader.h"
#include "shard/sink.h"
#include "train/source.h"

#include <memory>
#include <optional>
#include <string>

namespace tl::train {

struct SourceOptions {
  std::size_t threads = 0; // that decode; 0: one per core
  bool keep_going = false; // damaged records are skipped and named
  /// Shards that can be read only once (a pipe) are kept in this folder for later passes.
  std::string keep;
  bool force = false; // replaces shards of another kind in `keep`
  /// Records arrive in the order of mix(*order, hash of the content), equal ones by label: names, places
  /// and earlier runs then change nothing. Otherwise a folder of shards arrives in its own order, and a
  /// dataset, which must be read once more to know the hashes, in that of mix(seed, hash_text(id)).
  std::optional<std::uint64_t> order;
  data::HashCache *hashes = nullptr; // knows a dataset's records without reading them; may be null
};

/// Shards: of values, or of the records as they are stored, which are prepared here. A folder is
/// read in place; anything else is kept in options.keep while it arrives.
std::unique_ptr<RecordSource> shard_source(std::unique_ptr<shard::ShardSource> shards,
                                           const data::Preprocess &preprocess, const SourceOptions &options);

/// The records of `first` with what these folders of shards hold of them beside its values. Records that a
/// folder lacks are left out. `first` delivers the order; the folders may have any.
std::unique_ptr<RecordSource> joined_source(std::unique_ptr<RecordSource> first,
                                            const std::vector<std::string> &folders,
                                            const data::Preprocess &preprocess);

/// A dataset, prepared here.
std::unique_ptr<RecordSource> dataset_source(data::Dataset dataset, const data::Preprocess &preprocess,
                                             std::uint64_t seed, const SourceOptions &options);
std::unique_ptr<RecordSource> dataset_source(std::shared_ptr<const data::Dataset> dataset,
                                             const data::Preprocess &preprocess, std::uint64_t seed,
                                             const SourceOptions &options);

} // namespace tl::train
