// The report of a run as one HTML file: no file beside it, no request to anywhere, readable in the dark and
// by a screen reader.
#pragma once

#include "json/document.h"

#include <map>
#include <string>

namespace tl::select {

/// What a report shows: documents of a run, as they are written.
struct ReportInput {
  const json::Value &leaderboard;
  const json::Value &plan;                          // reuse-plan.json; null: nothing of it is shown
  const std::map<std::string, json::Value> &epochs; // by candidate id: Trial::history
  std::string labelling_curve;                      // SVG of curve.h; "": none
};

std::string html_report(const ReportInput &input);

/// Any bytes as text for an element or a quoted attribute: markup, control characters and invalid UTF-8
/// become harmless.
std::string escape_html(const std::string &bytes);

/// With so many digits behind the point.
std::string fixed(double value, int digits = 1);

/// Loss and accuracy on the validation records, epoch by epoch, of the best candidates.
std::string epochs_svg(const json::Value &leaderboard, const std::map<std::string, json::Value> &epochs,
                       const char *field, const std::string &title);

/// From the data set over what is extracted and kept to who trains on it.
std::string plan_svg(const json::Value &leaderboard, const json::Value &plan);

constexpr std::size_t kCurves = 6; // candidates whose curves and recalls are shown

} // namespace tl::select
