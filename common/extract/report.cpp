#include "extract/report.h"

#include "cli/log.h"
#include "json/bytes.h"

#include <algorithm>
#include <cstdio>

namespace tl::extract {

namespace {

json::Value notes(const std::vector<data::RecordNote> &records) {
  json::Value result = json::Value::array();
  for (const data::RecordNote &record : records)
    result.push_back({{"id", json::escape_bytes(record.id)}, {"reason", json::escape_bytes(record.reason)}});
  return result;
}

std::string cut_name(const shard::ShardMeta &meta) {
  if (meta.payload != shard::Payload::values) return "files";
  std::string name;
  for (const shard::ValueInfo &value : meta.values) name += (name.empty() ? "" : "+") + value.name;
  return name;
}

std::string count(std::int64_t n, const char *what) { return std::to_string(n) + " " + what; }

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", value < 100 ? 1 : 0, value);
  return text;
}

std::string summary(const shard::PartReport &part) {
  if (part.missing.empty())
    return "all " + std::to_string(part.partition.count) +
           " parts are there: " + count(part.records, "records, ") + count(part.skipped, "skipped");
  constexpr std::size_t kNamed = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(part.missing.size(), kNamed); ++i)
    names += (i ? ", " : "") + shard::Partition{part.missing[i], part.partition.count}.text();
  if (part.missing.size() > kNamed) names += ", ...";
  return "part " + part.partition.text() + " is there; still to come: " + names;
}

} // namespace

const std::string &ExtractReport::bottleneck() const {
  // Reading and decoding share threads, so either is the bottleneck when both together fill them.
  const auto busy = [this](const shard::Stage &stage) {
    return stage.name == "read" || stage.name == "decode" ? stages[0].busy + stages[1].busy : stage.busy;
  };
  const auto most =
      std::max_element(stages.begin(), stages.end(), [&](const shard::Stage &a, const shard::Stage &b) {
        return busy(a) != busy(b) ? busy(a) < busy(b) : a.busy < b.busy;
      });
  return most->name;
}

json::Value to_json(const ExtractReport &report, const std::string &dataset, const std::string &output,
                    const shard::ShardMeta &meta) {
  json::Value result = {{"format", "tl-extraction"},
                        {"version", 1},
                        {"dataset", json::escape_bytes(dataset)},
                        {"output", json::escape_bytes(output)},
                        {"cut", cut_name(meta)},
                        {"plan", meta.plan.hex()},
                        {"key", meta.key().hex()},
                        {"inputs", report.inputs},
                        {"records", report.sink.records},
                        {"computed", report.computed},
                        {"kept", report.kept},
                        {"skipped", notes(report.skipped)},
                        {"warned", notes(report.warned)},
                        {"shards", report.sink.shards},
                        {"bytes_read", report.bytes_read},
                        {"bytes_written", report.sink.bytes},
                        {"batch", report.batch},
                        {"threads", report.threads},
                        {"seconds", report.seconds},
                        {"bottleneck", report.bottleneck()},
                        {"stages", shard::to_json({report.seconds, report.stages})["stages"]}};
  if (const auto &part = report.sink.part)
    result["part"] = {{"index", part->partition.index},
                      {"count", part->partition.count},
                      {"missing", part->missing},
                      {"records", part->records},
                      {"skipped", part->skipped}};
  if (const auto &changes = report.sink.changes) result["changes"] = shard::to_json(*changes);
  return result;
}

std::vector<std::string> summary(const ExtractReport &report) {
  std::vector<std::string> lines;
  lines.push_back(count(report.inputs, "records: ") + count(report.computed, "computed, ") +
                  count(report.kept, "kept, ") +
                  count(static_cast<std::int64_t>(report.skipped.size()), "skipped"));
  if (const auto &part = report.sink.part) lines.push_back(summary(*part));
  if (const auto &changes = report.sink.changes)
    lines.push_back("against the last run: added " + std::to_string(changes->added) + ", changed " +
                    std::to_string(changes->changed) + ", relabelled " + std::to_string(changes->relabelled) +
                    ", renamed " + std::to_string(changes->renamed) + ", removed " +
                    std::to_string(changes->removed) + ", unchanged " + std::to_string(changes->unchanged));
  std::string stages;
  for (const shard::Stage &stage : report.stages)
    stages += (stages.empty() ? "" : ", ") + stage.name + " " + rounded(100 * stage.busy) + "%";
  const double rate = report.seconds > 0 ? static_cast<double>(report.inputs) / report.seconds : 0;
  lines.push_back(rounded(rate) + " records/s in " + cli::human_seconds(report.seconds) +
                  "; busy: " + stages + " (bottleneck: " + report.bottleneck() + "); wrote " +
                  cli::human_bytes(static_cast<double>(report.sink.bytes)));
  return lines;
}

} // namespace tl::extract
