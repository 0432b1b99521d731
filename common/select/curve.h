// Labelling curves: how good the candidates became with the number of labelled records, cycle by cycle.
#pragma once

#include "store/catalogue.h"
#include "json/document.h"

#include <string>
#include <vector>

namespace tl::select {

struct CurvePoint {
  std::int64_t cycle = 0, records = 0;
  double score = 0; // of the metric; larger is better, a loss counts negatively
  std::string candidate;
};

struct CandidateCurve {
  std::string id, name; // id "": the best candidate of each cycle
  std::vector<CurvePoint> points;
};

struct History {
  std::vector<store::Cycle> cycles;
  std::vector<std::vector<store::TrialRow>> trials; // of each cycle
};

History read_history(const store::Catalogue &catalogue);

/// The best of each cycle first, then the candidates, those with the best last score first. Cycles of another
/// metric than the last one's are left out.
std::vector<CandidateCurve> labelling_curves(const History &history);

/// A self-contained SVG: score against records, of the best and of at most `candidates` others. Readable in
/// the dark. Without a result it says so.
std::string labelling_svg(const History &history, std::size_t candidates = 5);

/// schemas/history.schema.json
json::Value to_json(const History &history);
/// A table for people, one cycle a line.
std::string table(const History &history);

} // namespace tl::select
