#include "select/space.h"

#include "cli/error.h"
#include "runtime/hash.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

namespace tl::select {

namespace {

// What is there already is drawn again; so many times in a row, and there is nothing else to draw.
constexpr std::size_t kTries = 10000;

bool is_whole(std::string_view key) {
  constexpr std::array<std::string_view, 6> kWhole = {"batch", "epochs", "patience",
                                                      "seed",  "warmup", "unfreeze"};
  return std::count(kWhole.begin(), kWhole.end(), key) > 0;
}

/// The values of a list, a choice or a single value; nothing for a range.
std::optional<json::Value> choices_of(const json::Value &field) {
  if (field.is_array()) return field;
  if (!field.is_object()) return json::Value::array({field});
  if (field.contains("choice")) return field.at("choice");
  return std::nullopt;
}

/// Throws unless a field that is an object says exactly one thing that can be drawn from.
void check(const Space &space, const std::string &origin) {
  for (const auto &[key, field] : space.fields.items()) {
    if (!field.is_object()) continue;
    const std::string place = origin + ": " + space.place + "/" + key + ": ";
    if (field.size() != 1)
      throw FormatError(place + "want exactly one of \"choice\", \"uniform\" and \"log_uniform\"");
    if (field.contains("choice")) continue;
    const bool logarithmic = field.contains("log_uniform");
    const json::Value &ends = field.at(logarithmic ? "log_uniform" : "uniform");
    const double low = ends.at(0).get<double>(), high = ends.at(1).get<double>();
    if (low > high) throw FormatError(place + "the range ends before it starts");
    if (logarithmic && low <= 0) throw FormatError(place + "a logarithmic range starts above 0");
    if (is_whole(key) && (low != std::floor(low) || high != std::floor(high)))
      throw FormatError(place + "a range of whole numbers starts and ends with one");
  }
}

void expand(const Space &space, const std::string &origin, std::vector<Point> &points) {
  std::vector<json::Value> grid{json::Value::object()};
  for (const auto &[key, field] : space.fields.items()) {
    const std::optional<json::Value> choices = choices_of(field);
    if (!choices)
      throw FormatError(origin + ": " + space.place + "/" + key +
                        ": a range needs a search that draws from it: \"search\": {\"strategy\": \"random\", "
                        "\"samples\": 20}");
    if (grid.size() * choices->size() + points.size() > kMaxCandidates)
      throw FormatError(origin + ": " + space.place + ": more than " + std::to_string(kMaxCandidates) +
                        " candidates; list fewer values, or draw some with \"search\"");
    std::vector<json::Value> longer;
    for (const json::Value &point : grid)
      for (const json::Value &choice : *choices) {
        longer.push_back(point);
        longer.back()[key] = choice;
      }
    grid = std::move(longer);
  }
  for (json::Value &point : grid) points.push_back({space.place, std::move(point)});
}

/// Number of points of all grids together, at most `limit`; nothing if there are ranges.
std::optional<std::size_t> grid_size(const std::vector<Space> &spaces, std::size_t limit) {
  std::size_t total = 0;
  for (const Space &space : spaces) {
    std::size_t size = 1;
    for (const auto &[key, field] : space.fields.items()) {
      const std::optional<json::Value> choices = choices_of(field);
      if (!choices) return std::nullopt;
      size = std::min(size * choices->size(), limit);
    }
    total = std::min(total + size, limit);
  }
  return total;
}

/// Numbers of one attempt, each from its own name, so that no field moves the others.
class Dice {
public:
  Dice(std::uint64_t seed, std::size_t attempt)
      : seed_(mix(seed, hash_text("attempt " + std::to_string(attempt)))) {}

  /// In [0, 1).
  double real(std::string_view name) const {
    return std::ldexp(double(mix(seed_, hash_text(name)) >> 11), -53);
  }
  std::size_t index(std::string_view name, std::size_t size) const {
    return std::min(static_cast<std::size_t>(real(name) * static_cast<double>(size)), size - 1);
  }

private:
  std::uint64_t seed_;
};

double rounded(double number) {
  if (number == 0) return 0;
  const double unit = std::pow(10.0, 3 - std::floor(std::log10(std::abs(number))));
  return std::round(number * unit) / unit;
}

json::Value from_range(const std::string &key, const json::Value &field, double at) {
  const bool logarithmic = field.contains("log_uniform");
  const json::Value &ends = field.at(logarithmic ? "log_uniform" : "uniform");
  const double low = ends.at(0).get<double>(), high = ends.at(1).get<double>();
  if (is_whole(key)) { // each whole number of a uniform range is as likely as the others
    const double number = logarithmic ? low * std::pow(high / low, at) : low - 0.5 + at * (high - low + 1);
    return static_cast<std::int64_t>(std::clamp(std::round(number), low, high));
  }
  const double number = logarithmic ? low * std::pow(high / low, at) : low + at * (high - low);
  return std::clamp(rounded(number), low, high);
}

Point drawn(const std::vector<Space> &spaces, const Dice &dice) {
  const Space &space = spaces[dice.index("candidates", spaces.size())];
  Point point{space.place, json::Value::object()};
  for (const auto &[key, field] : space.fields.items()) {
    const std::optional<json::Value> choices = choices_of(field);
    point.settings[key] = choices ? choices->at(dice.index("/" + key, choices->size()))
                                  : from_range(key, field, dice.real("/" + key));
  }
  return point;
}

/// Points of a grid in an order by the seed, without those that are there already.
std::vector<Point> shuffled(std::vector<Point> grid, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, Point>> keyed;
  std::set<std::string> seen;
  for (Point &point : grid) {
    const std::string text = json::compact(point.settings);
    if (seen.insert(text).second) keyed.emplace_back(mix(seed, hash_text(text)), std::move(point));
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<Point> points;
  for (auto &[key, point] : keyed) points.push_back(std::move(point));
  return points;
}

std::vector<Point> different(const std::vector<Space> &spaces, std::size_t samples, std::uint64_t seed) {
  std::vector<Point> points;
  std::set<std::string> seen;
  std::size_t vain = 0;
  for (std::size_t attempt = 0; points.size() < samples && vain < kTries; ++attempt) {
    Point point = drawn(spaces, Dice(seed, attempt));
    const bool added = seen.insert(json::compact(point.settings)).second;
    vain = added ? 0 : vain + 1;
    if (added) points.push_back(std::move(point));
  }
  return points;
}

} // namespace

bool has_ranges(const std::vector<Space> &spaces) { return !grid_size(spaces, 1); }

std::vector<Point> expand(const std::vector<Space> &spaces, const std::string &origin) {
  std::vector<Point> points;
  for (const Space &space : spaces) {
    check(space, origin);
    expand(space, origin, points);
  }
  return points;
}

std::vector<Point> draw(const std::vector<Space> &spaces, std::size_t samples, std::uint64_t seed, bool fewer,
                        const std::string &origin) {
  for (const Space &space : spaces) check(space, origin);
  const std::optional<std::size_t> size = grid_size(spaces, kMaxCandidates + 1);
  std::vector<Point> points = size && *size <= kMaxCandidates ? shuffled(expand(spaces, origin), seed)
                                                              : different(spaces, samples, seed);
  if (points.size() < samples && !fewer)
    throw FormatError(origin + ": /search/samples: there are only " + std::to_string(points.size()) +
                      " different candidates");
  if (points.size() > samples) points.resize(samples);
  return points;
}

} // namespace tl::select
