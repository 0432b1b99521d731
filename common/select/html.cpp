#include "select/html.h"

#include "cli/log.h"
#include "select/html_page.h"
#include "json/bytes.h"

#include <algorithm>
#include <cstdio>

namespace tl::select {

namespace {

using json::Value;

std::string shown(const Value &name) { return escape_html(json::unescape_bytes(name.get<std::string>())); }

/// A cell with a number that sorts; an empty one for null.
std::string number_cell(const Value &value, int digits) {
  if (!value.is_number()) return "<td class=\"n\" data-v=\"\"></td>";
  const auto number = value.get<double>();
  return "<td class=\"n\" data-v=\"" + fixed(number, 9) + "\">" + fixed(number, digits) + "</td>";
}

std::string text_cell(const std::string &escaped) {
  return "<td data-v=\"" + escaped + "\">" + escaped + "</td>";
}

const Value &figure(const Value &candidate, const char *name) {
  static const Value none;
  const auto found = candidate.find("validation");
  return found == candidate.end() ? none : found->at(name);
}

std::string row(const Value &candidate) {
  static const Value none;
  const bool ok = candidate.at("status") == "ok";
  const auto field = [&](const char *name) -> const Value & { return ok ? candidate.at(name) : none; };
  std::string html = ok && candidate.at("rank") == 1 ? "<tr class=\"best\">" : "<tr>";
  html += number_cell(field("rank"), 0);
  html += text_cell(shown(candidate.at("name")));
  html += text_cell(shown(candidate.at("model")));
  html += number_cell(field("score"), 4);
  html += number_cell(figure(candidate, "accuracy"), 4);
  html += number_cell(figure(candidate, "balanced_accuracy"), 4);
  html += number_cell(figure(candidate, "loss"), 4);
  html += number_cell(field("best_epoch"), 0) + number_cell(field("epochs"), 0);
  html += number_cell(candidate.at("seconds"), 2);
  html += text_cell(ok ? (candidate.at("cached") == true ? "kept" : "trained")
                       : "failed: " + shown(candidate.at("failure")));
  return html + "</tr>\n";
}

std::string leaderboard_section(const Value &board) {
  static constexpr const char *kColumns[] = {"Rank",     "Candidate", "Model", "Score",
                                             "Accuracy", "Balanced",  "Loss",  "Best epoch",
                                             "Epochs",   "Seconds",   "Result"};
  std::string html =
      "<h2>Leaderboard</h2>\n<div class=\"scroll\"><table class=\"sortable\"><caption>Candidates, "
      "best first. The score is the " +
      shown(board.at("metric")) +
      " on the validation records; larger is better. A column's head sorts.</caption>\n<thead><tr>";
  for (const char *column : kColumns)
    html += "<th scope=\"col\"><button type=\"button\">" + std::string(column) + "</button></th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const Value &candidate : board.at("candidates")) html += row(candidate);
  return html + "</tbody></table></div>\n";
}

std::string recall_section(const Value &board) {
  std::vector<const Value *> best;
  for (const Value &candidate : board.at("candidates"))
    if (candidate.at("status") == "ok" && best.size() < kCurves) best.push_back(&candidate);
  if (best.empty()) return "";
  std::string html =
      "<h2>Recall of each class</h2>\n<div class=\"scroll\"><table class=\"sortable\"><caption>Share of "
      "the validation records of a class that are recognised, for the best candidates. Empty: no "
      "record of that class.</caption>\n<thead><tr><th scope=\"col\"><button "
      "type=\"button\">Class</button></th>";
  for (const Value *candidate : best)
    html += "<th scope=\"col\"><button type=\"button\">" + shown(candidate->at("name")) + "</button></th>";
  html += "</tr></thead>\n<tbody>\n";
  const Value &classes = board.at("classes");
  for (std::size_t c = 0; c < classes.size(); ++c) {
    html += "<tr>" + text_cell(shown(classes[c]));
    for (const Value *candidate : best) {
      const Value &recall = figure(*candidate, "recall");
      html += number_cell(c < recall.size() ? recall[c] : Value(), 3);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string epochs_section(const ReportInput &input) {
  const std::string loss = epochs_svg(input.leaderboard, input.epochs, "validation_loss", "Validation loss");
  if (loss.empty()) return "";
  return "<h2>Training</h2>\n<div class=\"pair\">\n<figure>" + loss + "</figure>\n<figure>" +
         epochs_svg(input.leaderboard, input.epochs, "accuracy", "Validation accuracy") +
         "</figure>\n</div>\n";
}

std::string plan_section(const ReportInput &input) {
  if (!input.plan.is_object()) return "";
  const auto flops = [&](const char *name) { return input.plan.at(name).get<double>(); };
  std::string note = "What the networks have in common is computed once.";
  if (flops("shared_flops") > 0)
    note += " The frozen layers need " + fixed(flops("separate_flops") / flops("shared_flops"), 1) +
            " times less work than if each candidate ran them in every epoch.";
  return "<h2>Plan</h2>\n<p class=\"note\">" + note + "</p>\n<figure>" +
         plan_svg(input.leaderboard, input.plan) +
         "<figcaption>Left to right: the data set, the passes that extract from it, the values that are kept "
         "on "
         "disk (green: of an earlier run, too), and who trains on them (violet: several candidates in one "
         "pass).</figcaption></figure>\n";
}

std::string skipped_section(const Value &board) {
  const Value &skipped = board.at("skipped");
  if (skipped.empty()) return "";
  std::string html =
      "<h2>Skipped records</h2>\n<div class=\"scroll\"><table><caption>Records that could not be used"
      "</caption>\n<thead><tr><th scope=\"col\">Record</th><th scope=\"col\">Why</th></tr></thead>\n"
      "<tbody>\n";
  for (const Value &record : skipped)
    html += "<tr><td>" + shown(record.at("id")) + "</td><td>" + shown(record.at("reason")) + "</td></tr>\n";
  return html + "</tbody></table></div>\n";
}

std::string summary(const Value &board) {
  const Value &seconds = board.at("seconds");
  const auto spent = [&](const char *name) { return escape_html(cli::human_seconds(seconds.at(name))); };
  return "<h1>" + shown(board.at("experiment")) + "</h1>\n<p>" +
         std::to_string(board.at("candidates").size()) + " candidates on " +
         std::to_string(board.at("inputs").get<std::int64_t>()) + " records of " +
         std::to_string(board.at("classes").size()) + " classes: " + shown(board.at("dataset")) +
         ". Extraction took " + spent("extract") + ", training " + spent("train") + ", all together " +
         spent("total") + ".</p>\n";
}

} // namespace

std::string escape_html(const std::string &bytes) {
  std::string safe;
  for (const char c : cli::printable(bytes)) switch (c) {
    case '&':
      safe += "&amp;";
      break;
    case '<':
      safe += "&lt;";
      break;
    case '>':
      safe += "&gt;";
      break;
    case '"':
      safe += "&quot;";
      break;
    case '\'':
      safe += "&#39;";
      break;
    default:
      safe += c;
    }
  return safe;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string html_report(const ReportInput &input) {
  std::string html = kHtmlHead + summary(input.leaderboard) + leaderboard_section(input.leaderboard) +
                     epochs_section(input) + recall_section(input.leaderboard);
  if (!input.labelling_curve.empty())
    html += "<h2>Labelling curve</h2>\n<figure>" + input.labelling_curve + "</figure>\n";
  return html + plan_section(input) + skipped_section(input.leaderboard) + kHtmlTail;
}

} // namespace tl::select
