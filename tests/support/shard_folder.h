// A whole extraction into a folder and back, as tests of folders need it.
#pragma once

#include "shard/folder.h"
#include "support/files.h"
#include "support/shards.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tl::test {

using namespace shard;

inline SinkOptions small_shards(std::int64_t rows = 4) {
  SinkOptions options;
  options.rows_per_shard = rows;
  return options;
}

inline Member member(std::int64_t number) {
  return {record_hash(number), number % 4 - 1, number, record_id(number)};
}

/// What an extraction does: each record in order, computed only if it is new. Returns how many were.
inline std::int64_t extract(ShardSink &sink, const ShardMeta &meta, const std::vector<Member> &members) {
  std::int64_t computed = 0;
  for (const Member &wanted : members) {
    if (sink.has(wanted.record)) {
      sink.keep(wanted);
      continue;
    }
    std::int64_t number = 0;
    while (record_hash(number) != wanted.record) ++number;
    Shard row = make_rows(meta, number, 1);
    row.meta = {};
    row.labels[0] = wanted.label;
    row.rows[0] = wanted.row;
    row.ids[0] = wanted.id;
    sink.append(row);
    ++computed;
  }
  return computed;
}

inline std::vector<Member> members(std::int64_t first, std::int64_t count) {
  std::vector<Member> all;
  for (std::int64_t i = first; i < first + count; ++i) all.push_back(member(i));
  return all;
}

inline SinkReport run(const std::string &folder, const ShardMeta &meta, const std::vector<Member> &all,
                      std::int64_t expect_computed, const SinkOptions &options = small_shards()) {
  FolderSink sink(folder, meta, options);
  CHECK(extract(sink, meta, all) == expect_computed);
  return sink.finish(0);
}

/// All rows of a source, one shard each, in order.
inline std::vector<Shard> all_rows(ShardSource &source) {
  std::vector<Shard> rows;
  while (const std::optional<Shard> shard = source.next())
    for (std::int64_t i = 0; i < shard->size(); ++i) rows.push_back(slice(*shard, i, i + 1));
  return rows;
}

/// True if the folder gives exactly these members, in this order, each with its own features.
inline bool gives(const std::string &folder, const ShardMeta &meta, const std::vector<Member> &want) {
  FolderSource source(folder);
  const std::vector<Shard> rows = all_rows(source);
  bool same = rows.size() == want.size() && source.expected() == static_cast<std::int64_t>(want.size());
  for (std::size_t i = 0; same && i < want.size(); ++i) {
    std::int64_t number = 0;
    while (record_hash(number) != want[i].record) ++number;
    Shard right = make_rows(meta, number, 1);
    right.labels[0] = want[i].label;
    right.rows[0] = want[i].row;
    right.ids[0] = want[i].id;
    same = same_rows(rows[i], right);
  }
  return same;
}

inline std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string shard_name(int number) { return "shard-00000" + std::to_string(number) + ".safetensors"; }

} // namespace tl::test
