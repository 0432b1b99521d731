// What the parts of an experiment take on this host: measured once, kept in RUNS/costs.json
// (schemas/costs.schema.json), read by the planner.
#pragma once

#include "runtime/hash.h"
#include "json/document.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tl::select {

/// Seconds to load or write a row of so many bytes: fixed + bytes * per_byte.
struct RowCost {
  double fixed = 0, per_byte = 0;
  double of(double bytes) const { return fixed + bytes * per_byte; }
};

/// Of the records as a shared graph reads them.
struct InputCost {
  double read = 0;   // seconds to read and decode one
  double pixels = 0; // seconds to make one of its stored pixels; 0 if it is not a picture
  double bytes = 0;  // of memory that the frozen layers take for one while they run
};

/// Of one candidate's own steps.
struct TrainingCost {
  double seconds = 0;      // for a record: forward, backward, optimiser
  double fixed_bytes = 0;  // parameters, gradients, optimiser's state, the best epoch's copy
  double record_bytes = 0; // for each record of its batch
};

struct Costs {
  int threads = 0; // they were measured with
  RowCost load, write;
  std::map<Digest, InputCost> inputs; // by the hash of the graph's input
  std::map<Digest, double> values;    // seconds to compute each from its node's inputs, for a record
  std::map<std::string, TrainingCost> training; // by candidate id
};

json::Value to_json(const Costs &costs);
/// Throws FormatError.
Costs costs_from_json(const json::Value &document, const std::string &origin);
/// Nothing if there is no such file, or if it is damaged: it is measured again.
std::optional<Costs> load_costs(const std::string &path);

} // namespace tl::select
