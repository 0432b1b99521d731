#include "train/options/schedule.h"

#include "cli/error.h"
#include "json/document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <vector>

namespace tl::train {

namespace {

[[noreturn]] void refuse(const std::string &text) {
  throw UsageError("schedule '" + text + "': give constant, cosine, step:EPOCHS or step:EPOCHS:FACTOR");
}

double number(const std::string &item, const std::string &text) {
  char *end = nullptr;
  const double value = std::strtod(item.c_str(), &end);
  if (item.empty() || *end != '\0' || !std::isfinite(value)) refuse(text);
  return value;
}

} // namespace

Schedule Schedule::parse(const std::string &text) {
  Schedule schedule;
  if (text == "constant") return schedule;
  if (text == "cosine") {
    schedule.kind = Kind::cosine;
    return schedule;
  }
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ':');) items.push_back(item);
  if (items.size() < 2 || items.size() > 3 || items[0] != "step" || text.back() == ':') refuse(text);
  const double every = number(items[1], text);
  if (every < 1 || every > 1e9 || every != std::floor(every)) refuse(text);
  schedule.kind = Kind::step;
  schedule.every = static_cast<std::int64_t>(every);
  if (items.size() == 3) schedule.factor = number(items[2], text);
  if (schedule.factor <= 0 || schedule.factor > 1000) refuse(text);
  return schedule;
}

std::string Schedule::text() const {
  if (kind == Kind::constant) return "constant";
  if (kind == Kind::cosine) return "cosine";
  return "step:" + std::to_string(every) + ":" + json::compact(factor); // the shortest exact form
}

double Schedule::factor_at(std::int64_t epoch, std::int64_t epochs) const {
  switch (kind) {
  case Kind::constant:
    return 1;
  case Kind::cosine:
    return 0.5 * (1 + std::cos(std::acos(-1.0) * static_cast<double>(epoch) /
                               static_cast<double>(std::max<std::int64_t>(epochs, 1))));
  case Kind::step:
    return std::pow(factor, static_cast<double>(epoch / every));
  }
  return 1;
}

double warmup_factor(std::int64_t step, std::int64_t warmup) {
  if (step >= warmup) return 1;
  return static_cast<double>(step + 1) / static_cast<double>(warmup);
}

} // namespace tl::train
