#include "select/reuse_plan.h"

#include "cli/log.h"
#include "plan/plan.h"
#include "select/multi_model.h"
#include "json/bytes.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

namespace tl::select {

namespace {

/// Pictures that nothing frozen touches are kept as pixels, one byte each.
bool stored_as_pixels(const Prepared &prepared) {
  return prepared.reads_records() && prepared.preprocess.kind == data::InputKind::image;
}

FeatureSet set_for(const Prepared &prepared) {
  FeatureSet set;
  const bool pixels = stored_as_pixels(prepared);
  set.meta.codec = pixels ? "u8" : "fp32";
  set.meta.preprocess = json::compact(data::to_json(prepared.preprocess));
  set.meta.preprocess_digest = prepared.preprocess.digest();
  Hasher hasher;
  hasher.add("tl-feature-set 1").add(set.meta.codec).add(set.meta.preprocess_digest);
  hasher.add(static_cast<std::int64_t>(prepared.inputs.size()));
  for (std::size_t i = 0; i < prepared.inputs.size(); ++i) {
    const graph::Value &value = prepared.input(i);
    const DType dtype = pixels ? DType::u8 : value.dtype;
    set.meta.values.push_back({value.name, value.hash, dtype, value.shape});
    hasher.add(value.hash).add(name_of(dtype)).add(to_string(value.shape));
    set.bytes += element_count(value.shape) * static_cast<std::int64_t>(size_of(dtype));
  }
  set.key = hasher.digest();
  plan::Plan described; // so that the shards name the same plan as if tl-extract had made them
  described.codec = pixels ? plan::Codec::u8 : plan::Codec::fp32;
  for (std::size_t i = 0; i < prepared.inputs.size(); ++i) {
    const graph::Value &value = prepared.input(i);
    described.values.push_back({value.name, value.hash, value.dtype, value.shape});
  }
  set.meta.plan = described.digest();
  MultiModel alone(prepared.model);
  alone.add(prepared.model, prepared.inputs);
  set.flops = alone.flops();
  return set;
}

/// Sets of one pass read the same input and lack the same records.
void make_passes(ReusePlan &plan, const std::vector<Candidate> &candidates, const StoredState &stored) {
  using PassKey = std::tuple<Digest, bool, bool, Digest>; // input, pixels, stored, records
  std::map<PassKey, std::size_t> passes;
  std::vector<MultiModel> graphs;
  std::map<Digest, MultiModel> all; // by input: as if nothing were stored
  for (std::size_t s = 0; s < plan.sets.size(); ++s) {
    FeatureSet &set = plan.sets[s];
    const Prepared &prepared = *candidates[set.candidates.front()].prepared;
    const std::optional<Digest> state = stored(set);
    set.stored = state.has_value();
    const Digest &input = prepared.model.graph.input().hash;
    const PassKey key{input, set.meta.codec == "u8", set.stored, state.value_or(Digest())};
    const auto [found, added] = passes.emplace(key, plan.passes.size());
    if (added) {
      plan.passes.emplace_back();
      graphs.emplace_back(prepared.model);
    }
    set.pass = found->second;
    plan.passes[set.pass].sets.push_back(s);
    graphs[set.pass].add(prepared.model, prepared.inputs);
    all.emplace(input, MultiModel(prepared.model)).first->second.add(prepared.model, prepared.inputs);
  }
  for (std::size_t p = 0; p < plan.passes.size(); ++p) plan.passes[p].flops = graphs[p].flops();
  for (const auto &[input, graph] : all) plan.shared_flops += graph.flops();
}

std::string cut_name(const FeatureSet &set) {
  std::string name;
  for (const shard::ValueInfo &value : set.meta.values) name += (name.empty() ? "" : "+") + value.name;
  return name;
}

std::string operations(double flops) {
  static constexpr const char *kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(kUnits); ++unit) flops /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", flops, kUnits[unit]);
  return text;
}

std::string counted(std::size_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

} // namespace

std::int64_t ReusePlan::bytes() const {
  std::int64_t sum = 0;
  for (const FeatureSet &set : sets) sum += set.bytes;
  return sum;
}

ReusePlan make_reuse_plan(const std::vector<Candidate> &candidates, std::int64_t records,
                          const StoredState &stored) {
  ReusePlan plan;
  plan.records = records;
  std::map<const Prepared *, std::size_t> known; // candidates of one scheme share its set
  std::map<Digest, std::size_t> by_key;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Candidate &candidate = candidates[c];
    const auto [scheme, is_new] = known.emplace(candidate.prepared.get(), 0);
    if (is_new) {
      FeatureSet set = set_for(*candidate.prepared);
      const auto [found, added] = by_key.emplace(set.key, plan.sets.size());
      if (added) plan.sets.push_back(std::move(set));
      scheme->second = found->second;
    }
    plan.set_of.push_back(scheme->second);
    FeatureSet &set = plan.sets[scheme->second];
    set.candidates.push_back(c);
    plan.separate_flops += set.flops * static_cast<double>(candidate.spec.options.epochs);
  }
  make_passes(plan, candidates, stored);
  return plan;
}

json::Value to_json(const ReusePlan &plan, const std::vector<Candidate> &candidates) {
  json::Value sets = json::Value::array(), passes = json::Value::array();
  for (const FeatureSet &set : plan.sets) {
    json::Value values = json::Value::array(), readers = json::Value::array();
    for (const shard::ValueInfo &value : set.meta.values)
      values.push_back({{"name", json::escape_bytes(value.name)},
                        {"hash", value.hash.hex()},
                        {"dtype", name_of(value.dtype)},
                        {"shape", value.shape}});
    for (const std::size_t c : set.candidates) readers.push_back(candidates[c].id);
    sets.push_back({{"key", set.key.hex()},
                    {"values", values},
                    {"codec", set.meta.codec},
                    {"bytes_per_record", set.bytes},
                    {"flops_per_record", set.flops},
                    {"pass", set.pass},
                    {"stored", set.stored},
                    {"candidates", readers}});
  }
  for (const Pass &pass : plan.passes)
    passes.push_back({{"sets", pass.sets}, {"flops_per_record", pass.flops}});
  return {{"format", "tl-reuse"},
          {"version", 1},
          {"records", plan.records},
          {"candidates", plan.set_of.size()},
          {"bytes", plan.records * plan.bytes()},
          {"separate_flops", static_cast<double>(plan.records) * plan.separate_flops},
          {"shared_flops", static_cast<double>(plan.records) * plan.shared_flops},
          {"sets", sets},
          {"passes", passes}};
}

std::vector<std::string> explain(const ReusePlan &plan, const std::vector<Candidate> &candidates) {
  const auto records = static_cast<double>(plan.records);
  std::vector<std::string> lines;
  lines.push_back(counted(candidates.size(), "candidate") + " read " +
                  counted(plan.sets.size(), "feature set") + ", extracted in " +
                  std::to_string(plan.passes.size()) + (plan.passes.size() == 1 ? " pass" : " passes") +
                  " over " + std::to_string(plan.records) + " records; " +
                  cli::human_bytes(records * static_cast<double>(plan.bytes())) + " on disk");
  lines.push_back("frozen layers: " + operations(records * plan.shared_flops) + " once; " +
                  operations(records * plan.separate_flops) + " if every candidate ran them in every epoch");
  for (std::size_t p = 0; p < plan.passes.size(); ++p) {
    const Pass &pass = plan.passes[p];
    lines.push_back("pass " + std::to_string(p + 1) + ": " + operations(pass.flops) + " a record");
    for (const std::size_t s : pass.sets) {
      const FeatureSet &set = plan.sets[s];
      lines.push_back("  " + cut_name(set) + " (" + cli::human_bytes(static_cast<double>(set.bytes)) +
                      " a record" + (set.stored ? ", stored" : "") + ") -> " +
                      counted(set.candidates.size(), "candidate"));
      for (const std::size_t c : set.candidates) lines.push_back("    " + candidates[c].name());
    }
  }
  return lines;
}

} // namespace tl::select
