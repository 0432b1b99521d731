// leaderboard.json (schemas/leaderboard.schema.json): the result of a run.
#pragma once

#include "data/loader.h"
#include "data/source.h"
#include "select/leaderboard.h"
#include "select/reuse_plan.h"
#include "shard/sink.h"

#include <map>
#include <vector>

namespace tl::select {

/// What the document tells of, beside the ranking.
struct LeaderboardInput {
  const Experiment &experiment;
  const data::Dataset &dataset;
  const std::vector<Candidate> &candidates;
  const ReusePlan &plan;
  const std::vector<shard::SinkReport> &sinks;              // of each set
  const std::map<std::uint32_t, data::RecordNote> &skipped; // by index
  double extract_seconds = 0, train_seconds = 0, seconds = 0;
};

json::Value leaderboard_document(const LeaderboardInput &input, const std::vector<Row> &rows);

} // namespace tl::select
