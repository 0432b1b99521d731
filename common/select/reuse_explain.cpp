#include "select/reuse_plan.h"

#include "cli/log.h"

#include <cstdio>

namespace tl::select {

namespace {

std::string operations(double flops) {
  static constexpr const char *kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flops >= 1000 && unit + 1 < std::size(kUnits); ++unit) flops /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.3g %s", flops, kUnits[unit]);
  return text;
}

std::string times(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

std::string per_record(std::int64_t bytes) {
  return cli::human_bytes(static_cast<double>(bytes)) + " a record";
}

std::string names(const SharedGraph &graph, const std::vector<graph::ValueId> &values) {
  std::string text;
  for (const graph::ValueId id : values) text += (text.empty() ? "" : ", ") + graph.value(id).name;
  return text;
}

std::vector<std::string> predictions(const ReusePlan &plan) {
  const Predicted &predicted = plan.predicted;
  const auto against = [&](double seconds) {
    return cli::human_seconds(seconds) + " (" + times(seconds / std::max(predicted.plan, 1e-9)) +
           " times as long)";
  };
  std::vector<std::string> lines;
  lines.push_back("predicted: " + cli::human_seconds(predicted.plan) + ", of which extraction " +
                  cli::human_seconds(predicted.making) + " and the candidates' own steps " +
                  cli::human_seconds(predicted.training));
  lines.push_back("with nothing shared, every candidate from the records in each epoch: " +
                  against(predicted.separate));
  lines.push_back(
      "with everything stored that a candidate reads: " +
      (predicted.everything ? against(*predicted.everything) : std::string("more than the disk budget")));
  return lines;
}

std::string group_line(const ReusePlan &plan, std::size_t g, const SharedGraphs &graphs) {
  const Group &group = plan.groups[g];
  std::string from;
  for (const std::size_t s : group.sets)
    from += (from.empty() ? "loads " : ", ") + plan.sets[s].meta.values.front().name;
  if (group.records) from += (from.empty() ? "" : " and ") + std::string("reads the records");
  if (group.computed > 0)
    from += ", computes " + cli::counted(static_cast<std::size_t>(group.computed), "value") + " up to " +
            names(graphs.graphs[group.graph], group.outputs);
  return "group " + std::to_string(g + 1) + ": " + cli::counted(group.candidates.size(), "candidate") +
         (group.candidates.size() > 1 ? " in one pass, " : ", ") + from + ", " +
         (group.passes == 1 ? "once" : times(group.passes) + " times") + "; " +
         cli::human_bytes(static_cast<double>(group.memory)) + " of memory, and up to " +
         cli::human_bytes(static_cast<double>(group.cache)) + " for rows";
}

} // namespace

std::vector<std::string> explain(const ReusePlan &plan, const std::vector<Candidate> &candidates,
                                 const SharedGraphs &graphs) {
  const auto records = static_cast<double>(plan.records);
  std::vector<std::string> lines;
  lines.push_back(
      cli::counted(candidates.size(), "candidate") + " share a graph of " +
      cli::counted(plan.values, "value") + "; " + std::to_string(plan.sets.size()) +
      (plan.sets.size() == 1 ? " of them is" : " of them are") + " kept for " + std::to_string(plan.records) +
      " records, extracted in " + std::to_string(plan.passes.size()) +
      (plan.passes.size() == 1 ? " pass; " : " passes; ") +
      cli::human_bytes(records * static_cast<double>(plan.bytes())) + " on disk" +
      (plan.disk_budget ? " of " + cli::human_bytes(static_cast<double>(*plan.disk_budget)) : ""));
  lines.push_back("frozen layers: " + operations(records * plan.shared_flops) + " once; " +
                  operations(records * plan.separate_flops) + " if every candidate ran them in every epoch");
  for (std::string &line : predictions(plan)) lines.push_back(std::move(line));
  if (plan.gap > 0)
    lines.push_back("what is kept may take up to " + times(100 * plan.gap) +
                    " % longer than the best choice");
  for (std::size_t p = 0; p < plan.passes.size(); ++p) {
    lines.push_back("extraction " + std::to_string(p + 1) + ": " + operations(plan.passes[p].flops) +
                    " a record");
    for (const std::size_t s : plan.passes[p].sets)
      lines.push_back("  " + plan.sets[s].meta.values.front().name + " (" + per_record(plan.sets[s].bytes) +
                      (plan.sets[s].stored ? ", stored" : "") + ") -> " +
                      cli::counted(plan.sets[s].candidates.size(), "candidate"));
  }
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    lines.push_back(group_line(plan, g, graphs));
    for (const std::size_t c : plan.groups[g].candidates) lines.push_back("  " + candidates[c].name());
  }
  return lines;
}

} // namespace tl::select
