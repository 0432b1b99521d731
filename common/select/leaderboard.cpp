#include "select/leaderboard.h"

#include "cli/log.h"

#include <algorithm>
#include <cstdio>

namespace tl::select {

namespace {

using Line = std::vector<std::string>;

double loss_of(const Trial &trial) { return trial.validation.at("loss").get<double>(); }

std::string percent(const json::Value &share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share.get<double>());
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

Line line_of(const Row &row, std::size_t rank) {
  const Trial &trial = row.trial;
  if (trial.failed()) return {"-", cli::printable(trial.name), "failed: " + cli::printable(trial.failure)};
  const json::Value &figures = trial.validation;
  return {std::to_string(rank),
          cli::printable(trial.name),
          percent(figures.at("accuracy")),
          percent(figures.at("balanced_accuracy")),
          number(loss_of(trial)),
          std::to_string(trial.best_epoch) + "/" + std::to_string(trial.epochs),
          trial.cached ? "kept" : cli::human_seconds(trial.seconds),
          trial.id};
}

} // namespace

std::vector<Row> rank(std::vector<Trial> trials) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < trials.size(); ++i) rows.push_back({i, std::move(trials[i])});
  std::stable_sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    if (a.trial.failed() || b.trial.failed()) return !a.trial.failed() && b.trial.failed();
    if (a.trial.score != b.trial.score) return a.trial.score > b.trial.score;
    return loss_of(a.trial) < loss_of(b.trial);
  });
  return rows;
}

std::string table(const std::vector<Row> &rows, train::Monitor metric) {
  const auto mark = [&](const char *title, train::Monitor monitor) {
    return std::string(title) + (metric == monitor ? "*" : "");
  };
  std::vector<Line> lines{{"rank", "candidate", mark("accuracy", train::Monitor::accuracy),
                           mark("balanced", train::Monitor::balanced_accuracy),
                           mark("loss", train::Monitor::loss), "epoch", "time", "id"}};
  for (std::size_t i = 0; i < rows.size(); ++i) lines.push_back(line_of(rows[i], i + 1));
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line &line : lines) // a failure's reason may run over the columns
    for (std::size_t c = 0; c < line.size() && (c < 2 || line.size() > 3); ++c)
      widths[c] = std::max(widths[c], line[c].size());
  std::string text;
  for (const Line &line : lines) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string padding(widths[c] > line[c].size() ? widths[c] - line[c].size() : 0, ' ');
      const bool left = c == 1 || c == 7 || line.size() == 3; // text to the left, figures to the right
      row += (c ? "  " : "") + (left ? line[c] + padding : padding + line[c]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

} // namespace tl::select
