#include "select/curve.h"

#include "select/html.h"

#include <algorithm>
#include <cmath>

namespace tl::select {

namespace {

constexpr double kWidth = 640, kLeft = 64, kRight = 620, kTop = 40, kBottom = 300;
constexpr std::size_t kColours = 6;
constexpr const char *kStyle =
    "<style>.tlc{font:13px "
    "sans-serif;--ink:#222;--soft:#999;--c0:#0b5fa5;--c1:#c2410c;--c2:#15803d;--c3:#7e22ce;"
    "--c4:#a16207;--c5:#0e7490}@media(prefers-color-scheme:dark){.tlc{--ink:#eee;--soft:#777;--c0:#60a5fa;"
    "--c1:#fb923c;--c2:#4ade80;--c3:#c084fc;--c4:#facc15;--c5:#22d3ee}}.tlc text{fill:var(--ink)}"
    ".tlc .axis{stroke:var(--soft);stroke-width:.5;fill:none}.tlc .line{fill:none;stroke-width:1.5}"
    ".tlc .best{stroke-width:3}</style>\n";

std::string text_at(double x, double y, const std::string &escaped, const char *anchor = "start") {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor + "\">" +
         escaped + "</text>\n";
}

/// From data to the drawing.
struct Axes {
  double first = 0, last = 1, low = 0, high = 1;

  explicit Axes(const std::vector<CandidateCurve> &curves) {
    bool any = false;
    for (const CandidateCurve &curve : curves)
      for (const CurvePoint &point : curve.points) {
        const auto records = static_cast<double>(point.records);
        first = any ? std::min(first, records) : records;
        last = any ? std::max(last, records) : records;
        low = any ? std::min(low, point.score) : point.score;
        high = any ? std::max(high, point.score) : point.score;
        any = true;
      }
    if (last - first < 1) last = first + 1;
    if (high - low < 1e-9) low -= 0.5, high += 0.5;
  }
  double x(double records) const { return kLeft + (kRight - kLeft) * (records - first) / (last - first); }
  double y(double score) const { return kBottom - (kBottom - kTop) * (score - low) / (high - low); }

  std::string draw(const std::string &metric) const {
    constexpr int kTicks = 4;
    std::string content;
    for (int i = 0; i <= kTicks; ++i) {
      const double score = low + (high - low) * i / kTicks, records = first + (last - first) * i / kTicks;
      content += "<path class=\"axis\" d=\"M" + fixed(kLeft, 1) + " " + fixed(y(score), 1) + "H" +
                 fixed(kRight, 1) + "\"/>\n";
      content += text_at(kLeft - 8, y(score) + 4, fixed(score, 3), "end");
      content += text_at(x(records), kBottom + 20, fixed(records, 0), "middle");
    }
    content += text_at(kLeft, 20, escape_html(metric));
    return content + text_at(kRight, kBottom + 38, "records", "end");
  }
};

std::string draw(const CandidateCurve &curve, const Axes &axes, std::size_t place) {
  const std::string stroke = "stroke=\"var(--c" + std::to_string(place % kColours) + ")\"";
  const std::string style = std::string("class=\"line") + (place == 0 ? " best" : "") + "\" " + stroke;
  std::string path, points;
  for (const CurvePoint &point : curve.points) {
    const double x = axes.x(static_cast<double>(point.records)), y = axes.y(point.score);
    path += (path.empty() ? "M" : "L") + fixed(x, 1) + " " + fixed(y, 1);
    points += "<circle cx=\"" + fixed(x, 1) + "\" cy=\"" + fixed(y, 1) + "\" r=\"3\" fill=\"var(--c" +
              std::to_string(place % kColours) + ")\"><title>cycle " + std::to_string(point.cycle) + ", " +
              std::to_string(point.records) + " records: " + fixed(point.score, 4) + " " +
              escape_html(curve.name) + "</title></circle>\n";
  }
  const double y = kBottom + 62 + 20 * static_cast<double>(place);
  return "<path " + style + " d=\"" + path + "\"/>\n" + points + "<path " + style + " d=\"M" +
         fixed(kLeft, 1) + " " + fixed(y - 4, 1) + "h30\"/>\n" +
         text_at(kLeft + 38, y, escape_html(curve.name));
}

} // namespace

std::string labelling_svg(const History &history, std::size_t candidates) {
  std::vector<CandidateCurve> curves = labelling_curves(history);
  curves.resize(std::min(curves.size(), candidates + 1));
  curves.erase(std::remove_if(curves.begin(), curves.end(),
                              [](const CandidateCurve &curve) { return curve.points.empty(); }),
               curves.end());
  const Axes axes(curves);
  const double height = kBottom + 62 + 20 * static_cast<double>(std::max<std::size_t>(curves.size(), 1));
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tlc\" role=\"img\" viewBox=\"0 0 " +
                    fixed(kWidth, 0) + " " + fixed(height, 0) + "\" width=\"" + fixed(kWidth, 0) +
                    "\" height=\"" + fixed(height, 0) + "\"><title>Labelling curve</title>\n" + kStyle;
  svg += axes.draw(history.cycles.empty() ? "" : history.cycles.back().metric);
  for (std::size_t i = 0; i < curves.size(); ++i) svg += draw(curves[i], axes, i);
  if (curves.empty()) svg += text_at(kLeft, kBottom + 62, "no cycle with a result yet");
  return svg + "</svg>\n";
}

} // namespace tl::select
