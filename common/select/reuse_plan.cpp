#include "select/reuse_plan.h"

#include "json/bytes.h"

namespace tl::select {

namespace {

/// Of a graph or of a shard.
template <class Value> json::Value value_line(const Value &value) {
  return {{"name", json::escape_bytes(value.name)},
          {"hash", value.hash.hex()},
          {"dtype", name_of(value.dtype)},
          {"shape", value.shape}};
}

json::Value ids_of(const std::vector<std::size_t> &indexes, const std::vector<Candidate> &candidates) {
  json::Value ids = json::Value::array();
  for (const std::size_t c : indexes) ids.push_back(candidates[c].id);
  return ids;
}

json::Value set_line(const FeatureSet &set, const std::vector<Candidate> &candidates) {
  return {
      {"key", set.key.hex()},          {"values", json::Value::array({value_line(set.meta.values.front())})},
      {"codec", set.meta.codec},       {"bytes_per_record", set.bytes},
      {"flops_per_record", set.flops}, {"pass", set.pass},
      {"stored", set.stored},          {"candidates", ids_of(set.candidates, candidates)}};
}

json::Value group_line(const Group &group, const std::vector<Candidate> &candidates,
                       const SharedGraphs &graphs) {
  json::Value outputs = json::Value::array();
  for (const graph::ValueId id : group.outputs)
    outputs.push_back(value_line(graphs.graphs[group.graph].value(id)));
  return {{"candidates", ids_of(group.candidates, candidates)},
          {"sets", group.sets},
          {"records", group.records},
          {"computed", group.computed},
          {"values", outputs},
          {"passes", group.passes},
          {"memory", group.memory},
          {"cache", group.cache}};
}

} // namespace

std::int64_t ReusePlan::bytes() const {
  std::int64_t sum = 0;
  for (const FeatureSet &set : sets) sum += set.bytes;
  return sum;
}

std::string_view name_of(reuse::Keep keep) {
  return keep == reuse::Keep::plan ? "plan" : keep == reuse::Keep::all ? "all" : "none";
}

json::Value to_json(const ReusePlan &plan, const std::vector<Candidate> &candidates,
                    const SharedGraphs &graphs) {
  json::Value sets = json::Value::array(), passes = json::Value::array(), groups = json::Value::array();
  for (const FeatureSet &set : plan.sets) sets.push_back(set_line(set, candidates));
  for (const Pass &pass : plan.passes)
    passes.push_back({{"sets", pass.sets}, {"flops_per_record", pass.flops}});
  for (const Group &group : plan.groups) groups.push_back(group_line(group, candidates, graphs));
  const auto maybe = [](const auto &number) { return number ? json::Value(*number) : json::Value(nullptr); };
  return {{"format", "tl-reuse"},
          {"version", 2},
          {"records", plan.records},
          {"expected_records", plan.expected},
          {"candidates", plan.group_of.size()},
          {"graph_values", plan.values},
          {"materialise", name_of(plan.keep)},
          {"fuse", plan.fuse},
          {"disk_budget", maybe(plan.disk_budget)},
          {"memory_budget", plan.memory_budget},
          {"bytes", plan.records * plan.bytes()},
          {"separate_flops", static_cast<double>(plan.records) * plan.separate_flops},
          {"shared_flops", static_cast<double>(plan.records) * plan.shared_flops},
          {"predicted_seconds",
           {{"plan", plan.predicted.plan},
            {"extraction", plan.predicted.making},
            {"training_steps", plan.predicted.training},
            {"everything_stored", maybe(plan.predicted.everything)},
            {"nothing_shared", plan.predicted.separate}}},
          {"gap", plan.gap},
          {"planning_seconds", plan.planning},
          {"sets", sets},
          {"passes", passes},
          {"groups", groups}};
}

} // namespace tl::select
