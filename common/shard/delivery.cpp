#include "shard/delivery.h"

#include "cli/error.h"

#include <cmath>

namespace tl::shard {

namespace {

constexpr std::size_t kMaxStages = 32;
constexpr std::size_t kMaxName = 64;

double number(const json::Value &object, const char *key, double most, const std::string &origin) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) throw FormatError(origin + ": no number '" + key + "'");
  const auto value = found->get<double>();
  if (!(value >= 0 && value <= most))
    throw FormatError(origin + ": '" + key + "' of " + json::compact(*found) + " is impossible");
  return value;
}

} // namespace

double SenderReport::busy(const std::string &name) const {
  for (const Stage &stage : stages)
    if (stage.name == name) return stage.busy;
  return 0;
}

json::Value to_json(const SenderReport &report) {
  json::Value stages = json::Value::array();
  for (const Stage &stage : report.stages)
    stages.push_back({{"name", stage.name}, {"seconds", stage.seconds}, {"busy", stage.busy}});
  return {{"seconds", report.seconds}, {"stages", stages}};
}

SenderReport sender_from_json(const json::Value &value, const std::string &origin) {
  constexpr double kLong = 1e12, kWhole = 1.5; // clocks of several threads: a little over 1 can be
  if (!value.is_object()) throw FormatError(origin + ": not an object");
  SenderReport report;
  report.seconds = number(value, "seconds", kLong, origin);
  const auto stages = value.find("stages");
  if (stages == value.end() || !stages->is_array() || stages->size() > kMaxStages)
    throw FormatError(origin + ": no list of at most " + std::to_string(kMaxStages) + " stages");
  for (const json::Value &item : *stages) {
    const auto name = item.is_object() ? item.find("name") : item.end();
    if (name == item.end() || !name->is_string() || name->get_ref<const std::string &>().size() > kMaxName)
      throw FormatError(origin + ": a stage without a name");
    report.stages.push_back({name->get<std::string>(), number(item, "seconds", kLong, origin),
                             std::min(1.0, number(item, "busy", kWhole, origin))});
  }
  return report;
}

} // namespace tl::shard
