// A tiny network over 8x8 pictures, cut and extracted in a few calls.
#pragma once

#include "extract/extract.h"
#include "extract/input.h"
#include "shard/folder.h"
#include "support/files.h"
#include "support/models.h"
#include "support/photos.h"

#include <map>
#include <string>
#include <vector>

namespace tl::test {

inline data::Preprocess small_pictures() {
  return data::parse_preprocess("resize=8x8,mean=0.5/0.4/0.6,std=0.2/0.3/0.25");
}

inline model::Model load_small(const std::string &path,
                               const data::Preprocess &preprocess = small_pictures()) {
  return model::load_model(path, {DType::f32, {3, 8, 8}}, preprocess.digest());
}

inline extract::Prefix prefix_at(const model::Model &model, const std::string &cut,
                                 const data::Preprocess &preprocess = small_pictures()) {
  const std::vector<bool> all(model.graph.values.size(), true);
  return extract::Prefix(model, graph::find_cut(model.graph, all, cut), preprocess);
}

/// Holds what it is given; throws from append() at a call number, if wanted.
class MemorySink : public shard::ShardSink {
public:
  shard::ShardMeta meta;
  std::vector<shard::Member> members;      // in reading order
  std::map<Digest, shard::Shard> features; // one row each
  int append_calls = 0, fail_at = -1;
  std::string failure; // given to fail()
  std::int64_t skipped = -1;

  bool has(const Digest &record) const override { return features.count(record) != 0; }
  void keep(const shard::Member &member) override {
    if (!has(member.record)) throw Error("not there: " + member.id);
    members.push_back(member);
  }
  void append(const shard::Shard &rows) override {
    if (append_calls++ == fail_at) throw Error("the sink is full");
    shard::check_rows(meta, rows);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(i);
      members.push_back({rows.records[row], rows.labels[row], rows.rows[row], rows.ids[row]});
      fresh_[rows.records[row]] = shard::gather(meta, {{&rows, i}});
    }
  }
  shard::SinkReport finish(std::int64_t count) override {
    skipped = count;
    shard::SinkReport report;
    report.records = static_cast<std::int64_t>(members.size());
    report.written = static_cast<std::int64_t>(fresh_.size());
    features.insert(fresh_.begin(), fresh_.end());
    return report;
  }
  void fail(const std::string &reason) noexcept override { failure = reason; }
  const std::vector<std::string> &notes() const override { return notes_; }

  std::vector<std::string> ids() const {
    std::vector<std::string> result;
    for (const shard::Member &member : members) result.push_back(member.id);
    return result;
  }
  /// The row of features of a member.
  const shard::Shard &row(std::size_t member) const { return features.at(members.at(member).record); }

private:
  std::map<Digest, shard::Shard> fresh_; // not seen by has(): other threads call it
  std::vector<std::string> notes_;
};

} // namespace tl::test
