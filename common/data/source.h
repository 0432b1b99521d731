// Where labelled records come from: folders, lists, tensor files. One stated, locale-independent
// order; names are bytes.
#pragma once

#include "data/prepare.h"
#include "runtime/file_state.h"
#include "runtime/hash.h"
#include "runtime/tensor.h"
#include "shard/partition.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::data {

struct SourceOptions {
  /// "auto", or "folder", "csv", "list" (newline), "list0" (NUL), "tar", "webdataset", "safetensors", "idx".
  std::string format = "auto";
  /// Only these classes, renumbered 0..n-1 in this order; {} keeps all. An item is a class name or,
  /// where no class has that name, a range of numbered ones: {"5-9"}.
  std::vector<std::string> classes;
  /// At most this many records of each class (0: all), spread over the class: the first in the
  /// order of mix(seed, hash_text(id)). The listing order is kept.
  std::int64_t limit = 0;
  std::uint64_t seed = 0;
  /// Which part of the source: a sub-folder ("train", "val"), or the IDX files of that prefix
  /// ("train", "t10k"; "test" means t10k).
  std::string split;
  /// What a WebDataset sample without its picture, or without a label where others have one, is: "error",
  /// or "skip" (left out and counted in a note).
  std::string missing = "error";
};

struct Record {
  std::string id;          // path below the source's root, or "train/17" for row 17; any bytes
  std::int64_t label = -1; // index into classes(); -1: none
};

/// What the records of a source are.
enum class Content {
  files, // encoded pictures
  rows,  // rows of a numeric tensor
  tokens // rows of token ids, i64
};

class Dataset {
public:
  /// `spec`: a folder with one sub-folder per class (or none: unlabelled), a CSV with the header
  /// path,label, a newline or NUL list of path[TAB label], a .safetensors file with `images`,
  /// `input` or `tokens` (and `labels`), an IDX images file or a folder of them, a tar (a packed folder
  /// or WebDataset samples), a folder of tars or a pattern of them, shard-{000..009}.tar; "-" reads a list,
  /// or a tar, from stdin. Paths in a list are relative to its folder, or URLs. All but IDX may be objects,
  /// s3://bucket/prefix or swift://container/prefix. Throws Error, UsageError, FormatError.
  static Dataset open(const std::string &spec, const SourceOptions &options = {});

  Dataset(Dataset &&) noexcept;
  Dataset &operator=(Dataset &&) noexcept;
  ~Dataset();

  const std::string &spec() const;
  Content content() const;
  /// In listing order: classes bytewise, then files bytewise by path; rows and list entries as
  /// they stand.
  const std::vector<Record> &records() const;
  const std::vector<std::string> &classes() const; // bytewise order; empty when unlabelled
  /// Of one row; an empty shape and u8 for files.
  const Shape &row_shape() const;
  DType row_dtype() const;

  /// Names starting with '.', ignored.
  std::int64_t hidden() const;
  /// What a user should know, one line each: "3 hidden names ignored", ...
  const std::vector<std::string> &notes() const;

  /// Of the file that records()[index] is; nothing for other records, and when the file is not there. While
  /// it is the same, so is the record.
  std::optional<FileState> state(std::size_t index) const;

  /// Calls of read() that are worth having on their way at once, because each mostly waits; 1 where it
  /// does not.
  std::size_t reads_in_flight() const;

  /// The content of records()[index] and its hash. Thread-safe. Throws DecodeError for a record
  /// that cannot be used (missing, unreadable, not a regular file, 0 bytes, too large), another
  /// Error when it is the process that cannot go on.
  Encoded read(std::size_t index) const;

private:
  struct State;
  explicit Dataset(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Record indexes in listing order, or by mix(seed, hash_text(id)).
std::vector<std::uint32_t> record_order(const Dataset &dataset, bool shuffle, std::uint64_t seed);

/// One part of the data set for one of several writers, who put records in the order of record_order().
shard::PartOf part_of(const Dataset &dataset, const shard::Partition &partition, bool shuffle,
                      std::uint64_t seed);
/// Of these indexes, those of the part.
std::vector<std::uint32_t> only_part(const Dataset &dataset, const std::vector<std::uint32_t> &order,
                                     const shard::Partition &partition);

} // namespace tl::data
