#include "lease/document.h"

#include "cli/error.h"

namespace tl::lease {

std::string_view name_of(State state) {
  switch (state) {
  case State::waiting:
    return "waiting";
  case State::starting:
    return "starting";
  case State::running:
    return "running";
  }
  throw Error("internal error: a state of a lease that has no name");
}

json::Value to_json(const Entry &entry) {
  const Demand &demand = entry.demand;
  return {{"format", "tl-lease"},
          {"version", 1},
          {"pid", entry.pid},
          {"state", name_of(entry.state)},
          {"held", entry.held},
          {"shared", entry.shared},
          {"loaded", entry.loaded},
          {"batch", entry.batch},
          {"demand",
           {{"idle", demand.idle},
            {"fixed", demand.fixed},
            {"per_record", demand.per_record},
            {"least", demand.least},
            {"wanted", demand.wanted},
            {"half_batch", demand.half_batch}}}};
}

Entry entry_from_json(const json::Value &document, const std::string &origin) {
  json::validate(document, "lease", origin);
  Entry entry;
  entry.pid = document.at("pid").get<std::int64_t>();
  const auto state = document.at("state").get<std::string>();
  entry.state = state == name_of(State::waiting)    ? State::waiting
                : state == name_of(State::starting) ? State::starting
                                                    : State::running;
  entry.held = document.at("held").get<std::int64_t>();
  entry.shared = document.at("shared").get<std::int64_t>();
  entry.loaded = document.at("loaded").get<std::int64_t>();
  entry.batch = document.at("batch").get<std::int64_t>();
  const json::Value &demand = document.at("demand");
  entry.demand.idle = demand.at("idle").get<std::int64_t>();
  entry.demand.fixed = demand.at("fixed").get<std::int64_t>();
  entry.demand.per_record = demand.at("per_record").get<std::int64_t>();
  entry.demand.least = demand.at("least").get<std::int64_t>();
  entry.demand.wanted = demand.at("wanted").get<std::int64_t>();
  entry.demand.half_batch = demand.at("half_batch").get<double>();
  if (entry.demand.least > entry.demand.wanted)
    throw FormatError(origin + ": /demand: the smallest batch is larger than the largest");
  return entry;
}

} // namespace tl::lease
