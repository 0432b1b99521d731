#include "train/options/options.h"

#include "cli/error.h"

#include <array>
#include <cmath>
#include <limits>

namespace tl::train {

namespace {

constexpr std::array<std::string_view, 3> kOptimizers{"sgd", "adam", "adamw"};
constexpr std::array<std::string_view, 3> kMonitors{"loss", "accuracy", "balanced-accuracy"};
constexpr std::array<std::string_view, 2> kClassWeights{"none", "balanced"};

constexpr std::uint64_t kMaxSeed = (std::uint64_t{1} << 53) - 1; // exact in every JSON reader

template <class Enum, std::size_t N>
Enum from_name(const std::array<std::string_view, N> &names, const std::string &name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  std::string known;
  for (const std::string_view item : names) known += (known.empty() ? "" : ", ") + std::string(item);
  throw UsageError("'" + name + "' is not one of " + known);
}

/// Calls `visit(key, field)` for each field, in the order of the documents.
template <class Options, class Visit> void for_each_field(Options &options, const Visit &visit) {
  visit("optimizer", options.optimizer); // first: it decides defaults of others
  visit("epochs", options.epochs);
  visit("batch", options.batch);
  visit("lr", options.lr);
  visit("momentum", options.momentum);
  visit("weight_decay", options.weight_decay);
  visit("schedule", options.schedule);
  visit("warmup", options.warmup);
  visit("clip_norm", options.clip_norm);
  visit("label_smoothing", options.label_smoothing);
  visit("class_weights", options.class_weights);
  visit("validation", options.validation);
  visit("monitor", options.monitor);
  visit("patience", options.patience);
  visit("seed", options.seed);
}

json::Value value_of(std::int64_t field) { return field; }
json::Value value_of(std::uint64_t field) { return field; }
json::Value value_of(double field) { return field; }
json::Value value_of(const Schedule &field) { return field.text(); }
json::Value value_of(OptimizerKind field) { return name_of(field); }
json::Value value_of(Monitor field) { return name_of(field); }
json::Value value_of(ClassWeights field) { return name_of(field); }

std::string text_of(const json::Value &value) {
  if (!value.is_string()) throw UsageError("must be a string");
  return value.get<std::string>();
}

void read(const json::Value &value, std::int64_t &field) {
  if (!value.is_number_integer()) throw UsageError("must be a whole number");
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw UsageError("is too large");
  field = value.get<std::int64_t>();
}
void read(const json::Value &value, std::uint64_t &field) {
  if (!value.is_number_unsigned() && !(value.is_number_integer() && value.get<std::int64_t>() >= 0))
    throw UsageError("must be a whole number >= 0");
  field = value.get<std::uint64_t>();
}
void read(const json::Value &value, double &field) {
  if (!value.is_number()) throw UsageError("must be a number");
  field = value.get<double>();
}
void read(const json::Value &value, Schedule &field) { field = Schedule::parse(text_of(value)); }
void read(const json::Value &value, OptimizerKind &field) {
  field = from_name<OptimizerKind>(kOptimizers, text_of(value));
}
void read(const json::Value &value, Monitor &field) { field = from_name<Monitor>(kMonitors, text_of(value)); }
void read(const json::Value &value, ClassWeights &field) {
  field = from_name<ClassWeights>(kClassWeights, text_of(value));
}

void set_defaults(TrainOptions &options) {
  if (options.optimizer == OptimizerKind::sgd) {
    options.lr = 0.01;
    options.momentum = 0.9;
  }
  if (options.optimizer == OptimizerKind::adamw) options.weight_decay = 0.01;
}

void check_range(const char *name, double value, double low, double high) {
  if (!(value >= low && value <= high)) { // also refuses NaN
    const auto bound = [](double number) { return json::compact(json::Value(number)); };
    throw UsageError(std::string(name) + " must be between " + bound(low) + " and " + bound(high));
  }
}

} // namespace

std::string_view name_of(OptimizerKind kind) { return kOptimizers[static_cast<std::size_t>(kind)]; }
std::string_view name_of(Monitor monitor) { return kMonitors[static_cast<std::size_t>(monitor)]; }
std::string_view name_of(ClassWeights weights) { return kClassWeights[static_cast<std::size_t>(weights)]; }

void TrainOptions::check() const {
  check_range("epochs", static_cast<double>(epochs), 1, 1e6);
  check_range("batch", static_cast<double>(batch), 1, 1e6);
  check_range("lr", lr, 0, 1e38);
  check_range("momentum", momentum, 0, 1);
  check_range("weight_decay", weight_decay, 0, 1e6);
  check_range("warmup", static_cast<double>(warmup), 0, 1e9);
  check_range("clip_norm", clip_norm, 0, 1e12);
  check_range("label_smoothing", label_smoothing, 0, 1);
  check_range("validation", validation, 0, 0.99);
  check_range("patience", static_cast<double>(patience), 0, 1e6);
  if (seed > kMaxSeed) throw UsageError("seed must be at most " + std::to_string(kMaxSeed));
  if (momentum != 0 && optimizer != OptimizerKind::sgd)
    throw UsageError("momentum is for the optimizer sgd; " + std::string(name_of(optimizer)) +
                     " has its own");
  if (validation == 0 && patience > 0)
    throw UsageError("patience needs validation records: give a validation share above 0");
}

json::Value to_json(const TrainOptions &options) {
  json::Value object = json::Value::object();
  for_each_field(options, [&](const char *key, const auto &field) { object[key] = value_of(field); });
  return object;
}

TrainOptions options_from_json(const json::Value &object, const std::string &origin) {
  if (!object.is_object()) throw FormatError(origin + ": must be an object");
  TrainOptions options;
  std::vector<std::string> known;
  for_each_field(options, [&](const char *key, auto &field) {
    known.emplace_back(key);
    if (object.contains(key)) {
      try {
        read(object.at(key), field);
      } catch (const UsageError &error) {
        throw FormatError(origin + ": " + key + ": " + error.what());
      }
    }
    if (known.size() == 1) set_defaults(options); // the optimizer is known now
  });
  for (const auto &[key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string hint = json::suggestion(key, known);
    throw FormatError(origin + ": unknown key '" + key + "'" + (hint.empty() ? "" : ": " + hint));
  }
  try {
    options.check();
  } catch (const UsageError &error) {
    throw FormatError(origin + ": " + error.what());
  }
  return options;
}

std::vector<std::string> changes(const TrainOptions &before, const TrainOptions &now) {
  const json::Value old_values = to_json(before), new_values = to_json(now);
  std::vector<std::string> found;
  for (const auto &[key, value] : old_values.items()) {
    const json::Value &other = new_values.at(key);
    if (value == other || key == "patience") continue;
    const bool rates_differ =
        before.schedule.kind == Schedule::Kind::cosine || now.schedule.kind == Schedule::Kind::cosine;
    if (key == "epochs" && !rates_differ) continue;
    found.push_back(key + " " + json::compact(value) + " -> " + json::compact(other));
  }
  return found;
}

} // namespace tl::train
