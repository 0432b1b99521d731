#include "select/costs.h"

#include "cli/error.h"

#include <filesystem>

namespace tl::select {

namespace {

json::Value to_json(const RowCost &cost) { return {{"fixed", cost.fixed}, {"per_byte", cost.per_byte}}; }

RowCost row_cost(const json::Value &document) {
  return {document.at("fixed").get<double>(), document.at("per_byte").get<double>()};
}

} // namespace

json::Value to_json(const Costs &costs) {
  json::Value inputs = json::Value::array(), values = json::Value::array(), training = json::Value::array();
  for (const auto &[hash, input] : costs.inputs)
    inputs.push_back(
        {{"hash", hash.hex()}, {"read", input.read}, {"pixels", input.pixels}, {"bytes", input.bytes}});
  for (const auto &[hash, seconds] : costs.values)
    values.push_back({{"hash", hash.hex()}, {"seconds", seconds}});
  for (const auto &[id, cost] : costs.training)
    training.push_back({{"candidate", id},
                        {"seconds", cost.seconds},
                        {"fixed_bytes", cost.fixed_bytes},
                        {"record_bytes", cost.record_bytes}});
  return {{"format", "tl-costs"},
          {"version", 1},
          {"threads", costs.threads},
          {"load", to_json(costs.load)},
          {"write", to_json(costs.write)},
          {"inputs", inputs},
          {"values", values},
          {"training", training}};
}

Costs costs_from_json(const json::Value &document, const std::string &origin) {
  json::validate(document, "costs", origin);
  Costs costs;
  costs.threads = document.at("threads").get<int>();
  costs.load = row_cost(document.at("load"));
  costs.write = row_cost(document.at("write"));
  for (const json::Value &input : document.at("inputs"))
    costs.inputs[Digest::from_hex(input.at("hash").get<std::string>())] = {
        input.at("read").get<double>(), input.at("pixels").get<double>(), input.at("bytes").get<double>()};
  for (const json::Value &value : document.at("values"))
    costs.values[Digest::from_hex(value.at("hash").get<std::string>())] = value.at("seconds").get<double>();
  for (const json::Value &line : document.at("training"))
    costs.training[line.at("candidate").get<std::string>()] = {line.at("seconds").get<double>(),
                                                               line.at("fixed_bytes").get<double>(),
                                                               line.at("record_bytes").get<double>()};
  return costs;
}

std::optional<Costs> load_costs(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    return costs_from_json(json::load(path, "costs"), path);
  } catch (const FormatError &) {
    return std::nullopt;
  }
}

} // namespace tl::select
