#include "cli/log.h"
#include "plan/planner.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tl::plan {

namespace {

constexpr std::size_t kColumns = 11;
constexpr std::size_t kWidestName = 40; // a dense block's cut has dozens of values
using Row = std::array<std::string, kColumns>;

std::string shorten(const std::string &name) {
  return name.size() <= kWidestName ? name : name.substr(0, kWidestName - 3) + "...";
}

Row row_of(const Alternative &alternative, bool chosen) {
  const Prediction &p = alternative.predicted;
  std::string by;
  for (const std::string &name : alternative.chosen_by) by += (by.empty() ? "" : ",") + name;
  return {chosen ? "*" : "",
          shorten(cli::printable(alternative.name)),
          std::string(name_of(alternative.codec)),
          cli::human_bytes(p.bytes),
          std::to_string(alternative.batch),
          cli::human_seconds(p.storage),
          cli::human_seconds(p.link),
          cli::human_seconds(p.compute),
          alternative.feasible ? std::string(p.bottleneck()) : "memory!",
          cli::human_seconds(p.total),
          by};
}

bool is_chosen(const Plan &plan, const Alternative &alternative) {
  const bool in_storage =
      std::count(alternative.chosen_by.begin(), alternative.chosen_by.end(), "storage") > 0;
  return alternative.name == plan.cut_name() && alternative.codec == plan.codec &&
         in_storage == (plan.train_on == Side::storage);
}

std::string pad(const std::string &text, std::size_t width, bool left) {
  // Names are UTF-8: count characters, not bytes.
  const auto length = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  const std::string space(width > length ? width - length : 0, ' ');
  return left ? text + space : space + text;
}

} // namespace

std::string explain(const Plan &plan) {
  std::vector<Row> rows = {{"", "cut", "codec", "bytes", "batch", "storage", "link", "compute", "bottleneck",
                            "total", "chosen by"}};
  for (const Alternative &alternative : plan.alternatives)
    rows.push_back(row_of(alternative, is_chosen(plan, alternative)));
  std::array<std::size_t, kColumns> widths{};
  for (const Row &row : rows)
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row &row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const bool left = i < 3 || i == 8 || i == 10;
      line += (i ? "  " : "") + pad(row[i], widths[i], left);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  const Prediction &p = plan.predicted;
  text += "bytes, storage, link and compute are for one record. Chosen: " + cli::printable(plan.cut_name()) +
          " (" + plan.algorithm + "); first epoch " + cli::human_seconds(p.first_epoch) + ", later epochs " +
          cli::human_seconds(p.later_epoch) + ", total " + cli::human_seconds(p.total) + ".\n";
  if (!graph::exact(plan.storage_execution) || !graph::exact(plan.compute_execution))
    text += "Frozen layers run in bf16, as the profile allows, and round features.\n";
  return text;
}

std::string describe(const PlanRevision &revision, const Plan &plan) {
  const auto times = [](double factor) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", factor);
    return std::string(text);
  };
  const std::string tiers = "against the profiles, the storage side was " + times(revision.storage) +
                            " times slower, the link " + times(revision.link) + " and the compute side " +
                            times(revision.compute);
  if (!revision.drifted)
    return tiers + ": no drift of more than " + times(revision.allowed) + " times, the plan is the profiles'";
  const std::string before = cli::printable(revision.cut) + " (" + revision.codec + ")";
  const std::string now = cli::printable(plan.cut_name()) + " (" + std::string(name_of(plan.codec)) + ")";
  return tiers + ": " +
         (before == now ? now + " stays the best cut" : now + " is the better cut now, not " + before);
}

} // namespace tl::plan
