// The drawings of a report.
#include "cli/log.h"
#include "select/html.h"
#include "json/bytes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace tl::select {

namespace {

using json::Value;

std::string label(double x, double y, const std::string &escaped, const char *more = "") {
  return "<text x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\"" + more + ">" + escaped + "</text>";
}

/// At most `length` characters; what is cut off is in the tooltip.
std::string shortened(const std::string &name, std::size_t length) {
  std::string text;
  std::size_t characters = 0;
  for (const char c : name) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; // of a UTF-8 character
    if (begins && ++characters > length) return escape_html(text) + "\u2026";
    text += c;
  }
  return escape_html(text);
}

std::string svg(double width, double height, const std::string &title, const std::string &content) {
  return "<svg role=\"img\" viewBox=\"0 0 " + fixed(width, 0) + " " + fixed(height, 0) + "\" width=\"" +
         fixed(width, 0) + "\" height=\"" + fixed(height, 0) + "\" aria-label=\"" + title + "\"><title>" +
         title + "</title>\n" + content + "</svg>";
}

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points; // epoch, value
};

/// One chart with axes and a legend below.
class Chart {
public:
  Chart(const std::vector<Curve> &curves, std::string title) : curves_(curves), title_(std::move(title)) {
    low_ = std::numeric_limits<double>::infinity();
    high_ = -low_;
    for (const Curve &curve : curves)
      for (const auto &[x, y] : curve.points) {
        last_ = std::max(last_, x);
        low_ = std::min(low_, y);
        high_ = std::max(high_, y);
      }
    if (high_ - low_ < 1e-9) {
      low_ -= 0.5;
      high_ += 0.5;
    }
  }

  std::string draw() const {
    std::string content = label(kLeft, 16, title_);
    constexpr int kTicks = 4;
    for (int i = 0; i <= kTicks; ++i) {
      const double value = low_ + (high_ - low_) * i / kTicks;
      content +=
          "<path class=\"axis\" d=\"M" + fixed(kLeft) + " " + fixed(y(value)) + "H" + fixed(kRight) + "\"/>";
      content += label(kLeft - 6, y(value) + 4, fixed(value, 3), " class=\"soft\" text-anchor=\"end\"");
    }
    content += label(x(1), kBottom + 18, "1", " class=\"soft\" text-anchor=\"middle\"");
    if (last_ > 1)
      content +=
          label(x(last_), kBottom + 18, "epoch " + fixed(last_, 0), " class=\"soft\" text-anchor=\"end\"");
    for (std::size_t i = 0; i < curves_.size(); ++i) content += draw(i);
    const double height = kBottom + 30 + 18 * static_cast<double>(curves_.size());
    return svg(kRight + 15, height, title_, content);
  }

private:
  static constexpr double kLeft = 60, kRight = 480, kTop = 30, kBottom = 230;

  double x(double epoch) const {
    return last_ > 1 ? kLeft + (kRight - kLeft) * (epoch - 1) / (last_ - 1) : kLeft;
  }
  double y(double value) const { return kBottom - (kBottom - kTop) * (value - low_) / (high_ - low_); }

  std::string draw(std::size_t i) const {
    const Curve &curve = curves_[i];
    const std::string style = "class=\"curve s" + std::to_string(i) + "\"";
    std::string path;
    for (const auto &[epoch, value] : curve.points)
      path += (path.empty() ? "M" : "L") + fixed(x(epoch)) + " " + fixed(y(value));
    if (curve.points.size() == 1) path += "h6"; // a point would not be seen
    const double height = kBottom + 40 + 18 * static_cast<double>(i);
    return "<path " + style + " d=\"" + path + "\"><title>" + escape_html(curve.name) +
           "</title></path>\n<path " + style + " d=\"M" + fixed(kLeft) + " " + fixed(height - 4) + "h30\"/>" +
           label(kLeft + 38, height, shortened(curve.name, 60)) + "\n";
  }

  const std::vector<Curve> &curves_;
  std::string title_;
  double last_ = 1, low_ = 0, high_ = 1;
};

constexpr double kBoxWidth = 200, kBoxHeight = 44, kGapX = 70, kGapY = 14;
constexpr std::size_t kBoxes = 60; // of a column; more would not be read

/// Boxes in columns, and edges between them.
class Diagram {
public:
  struct Box {
    std::size_t column;
    double y;
  };

  /// Returns the box's number, or that of "and N more" once the column is full.
  std::size_t box(std::size_t column, const std::string &first, const std::string &second,
                  const std::string &more, const char *style) {
    const auto rows = static_cast<std::size_t>(
        std::count_if(boxes_.begin(), boxes_.end(), [&](const Box &b) { return b.column == column; }));
    if (rows > kBoxes) return last_of(column);
    const bool full = rows == kBoxes;
    boxes_.push_back({column, 10 + static_cast<double>(rows) * (kBoxHeight + kGapY)});
    const Box &b = boxes_.back();
    const double x = left(column);
    content_ += "<g><title>" + escape_html(full ? "and more" : more) + "</title><rect class=\"box " +
                std::string(full ? "" : style) + "\" x=\"" + fixed(x) + "\" y=\"" + fixed(b.y) +
                "\" width=\"" + fixed(kBoxWidth) + "\" height=\"" + fixed(kBoxHeight) + "\" rx=\"6\"/>" +
                label(x + 10, b.y + 18, full ? "\u2026 and more" : shortened(first, 28)) +
                (full ? "" : label(x + 10, b.y + 35, shortened(second, 30), " class=\"soft\"")) + "</g>\n";
    return boxes_.size() - 1;
  }

  void edge(std::size_t from, std::size_t to) {
    if (!edges_.emplace(from, to).second) return;
    const Box &a = boxes_[from], &b = boxes_[to];
    const double x1 = left(a.column) + kBoxWidth, x2 = left(b.column), middle = (x1 + x2) / 2;
    const double y1 = a.y + kBoxHeight / 2, y2 = b.y + kBoxHeight / 2;
    lines_ += "<path class=\"edge\" d=\"M" + fixed(x1) + " " + fixed(y1) + "C" + fixed(middle) + " " +
              fixed(y1) + " " + fixed(middle) + " " + fixed(y2) + " " + fixed(x2) + " " + fixed(y2) +
              "\"/>\n";
  }

  std::string draw(const std::string &title) const {
    double height = 0;
    std::size_t columns = 0;
    for (const Box &b : boxes_) {
      height = std::max(height, b.y + kBoxHeight + 10);
      columns = std::max(columns, b.column + 1);
    }
    return svg(left(columns - 1) + kBoxWidth + 10, height, title, lines_ + content_);
  }

private:
  static double left(std::size_t column) { return 10 + static_cast<double>(column) * (kBoxWidth + kGapX); }
  std::size_t last_of(std::size_t column) const {
    for (std::size_t i = boxes_.size(); i-- > 0;)
      if (boxes_[i].column == column) return i;
    return 0;
  }

  std::vector<Box> boxes_;
  std::set<std::pair<std::size_t, std::size_t>> edges_;
  std::string content_, lines_;
};

std::string names_of(const Value &values) {
  std::string names;
  for (const Value &value : values)
    names += (names.empty() ? "" : "+") + json::unescape_bytes(value.at("name").get<std::string>());
  return names;
}

} // namespace

std::string epochs_svg(const Value &leaderboard, const std::map<std::string, Value> &epochs,
                       const char *field, const std::string &title) {
  std::vector<Curve> curves;
  for (const Value &candidate : leaderboard.at("candidates")) {
    const auto history = epochs.find(candidate.at("id").get<std::string>());
    if (candidate.at("status") != "ok" || history == epochs.end() || curves.size() == kCurves) continue;
    Curve curve{json::unescape_bytes(candidate.at("name").get<std::string>()), {}};
    for (const Value &epoch : history->second)
      if (const Value &value = epoch.at(field); value.is_number() && std::isfinite(value.get<double>()))
        curve.points.emplace_back(epoch.at("epoch").get<double>(), value.get<double>());
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  return curves.empty() ? "" : Chart(curves, title).draw();
}

std::string plan_svg(const Value &leaderboard, const Value &plan) {
  std::map<std::string, std::string> names; // of candidates, by id
  for (const Value &candidate : leaderboard.at("candidates"))
    names[candidate.at("id").get<std::string>()] =
        json::unescape_bytes(candidate.at("name").get<std::string>());
  Diagram diagram;
  const std::string records = std::to_string(plan.at("records").get<std::int64_t>()) + " records";
  const std::size_t data = diagram.box(0, "Data set", records, records, "");
  std::vector<std::size_t> passes, sets;
  for (const Value &pass : plan.at("passes")) {
    passes.push_back(diagram.box(1, "Pass " + std::to_string(passes.size() + 1),
                                 "extracts " + cli::counted(pass.at("sets").size(), "value"),
                                 "one reading of the data set", ""));
    diagram.edge(data, passes.back());
  }
  for (const Value &set : plan.at("sets")) {
    const std::string name = names_of(set.at("values"));
    const std::string size = cli::human_bytes(set.at("bytes_per_record").get<double>()) + " a record";
    sets.push_back(diagram.box(2, name, size + ", " + cli::counted(set.at("candidates").size(), "reader"),
                               name + ", " + size, set.at("stored") == true ? "kept" : ""));
    diagram.edge(passes.at(set.at("pass").get<std::size_t>()), sets.back());
  }
  for (const Value &group : plan.at("groups")) {
    const Value &members = group.at("candidates");
    std::string all, first;
    for (const Value &id : members) {
      const auto name = names.find(id.get<std::string>());
      if (name == names.end()) continue;
      if (first.empty()) first = name->second;
      all += (all.empty() ? "" : ", ") + name->second;
    }
    const std::string work = "computes " + cli::counted(group.at("computed").get<std::size_t>(), "value");
    const std::size_t box = diagram.box(
        3, members.size() == 1 ? first : cli::counted(members.size(), "candidate") + " in one pass", work,
        all + ": " + work, members.size() > 1 ? "fused" : "");
    for (const Value &set : group.at("sets")) diagram.edge(sets.at(set.get<std::size_t>()), box);
    if (group.at("records") == true) diagram.edge(data, box);
  }
  return diagram.draw("Plan: " + records + ", " + cli::counted(sets.size(), "value") + " kept on disk, " +
                      std::to_string(plan.at("groups").size()) + " passes of training");
}

} // namespace tl::select
