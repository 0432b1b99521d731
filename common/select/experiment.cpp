#include "select/experiment.h"

#include "cli/error.h"
#include "cli/io.h"
#include "json/keys.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 20;

std::string relative_to(const std::string &folder, const std::string &path) {
  return folder.empty() || fs::path(path).is_absolute() ? path : (fs::path(folder) / path).string();
}

/// Runs `action`; what a value in the document did wrong is reported with its place.
template <class Action> auto at_place(const std::string &place, const Action &action) {
  try {
    return action();
  } catch (const UsageError &error) {
    throw FormatError(place + ": " + error.what());
  }
}

data::Preprocess preprocess_of(const json::Value &value, const std::string &place,
                               const std::string &folder) {
  if (value.is_object()) return data::preprocess_from_json(value, place);
  const auto text = value.get<std::string>();
  const std::string file = relative_to(folder, text);
  std::error_code ignored;
  return at_place(place,
                  [&] { return data::parse_preprocess(fs::is_regular_file(file, ignored) ? file : text); });
}

std::vector<ModelEntry> models_of(const json::Value &list, const std::string &origin,
                                  const std::string &folder) {
  std::vector<ModelEntry> models;
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = origin + ": /models/" + std::to_string(i);
    ModelEntry entry;
    entry.name = list[i].at("name").get<std::string>();
    entry.path = list[i].at("path").get<std::string>();
    entry.file = relative_to(folder, entry.path);
    if (list[i].contains("preprocess"))
      entry.preprocess = preprocess_of(list[i].at("preprocess"), place + "/preprocess", folder);
    if (!names.insert(entry.name).second)
      throw FormatError(place + ": another model is called '" + entry.name + "' already");
    models.push_back(std::move(entry));
  }
  return models;
}

data::SourceOptions data_of(const json::Value &document, std::uint64_t seed) {
  data::SourceOptions options;
  options.seed = seed;
  if (!document.contains("data")) return options;
  const json::Value &data = document.at("data");
  options.format = data.value("format", options.format);
  options.classes = data.value("classes", options.classes);
  options.limit = data.value("limit", options.limit);
  options.split = data.value("split", options.split);
  options.missing = data.value("missing", options.missing);
  return options;
}

/// Settings of one candidate: every field holds one value.
struct Point {
  std::string place;
  json::Value settings;
};

/// `grid` over `defaults`, with the model filled in.
json::Value merged(const json::Value &defaults, const json::Value &grid,
                   const std::vector<ModelEntry> &models) {
  json::Value names = json::Value::array();
  for (const ModelEntry &model : models) names.push_back(model.name);
  json::Value fields = {{"model", names}};
  for (const auto &[key, value] : defaults.items()) fields[key] = value;
  for (const auto &[key, value] : grid.items()) fields[key] = value;
  return fields;
}

/// Appends every combination of the fields' values.
void expand(const json::Value &fields, const std::string &origin, const std::string &place,
            std::vector<Point> &points) {
  std::vector<json::Value> grid{json::Value::object()};
  for (const auto &[key, value] : fields.items()) {
    const json::Value choices = value.is_array() ? value : json::Value::array({value});
    if (grid.size() * choices.size() + points.size() > kMaxCandidates)
      throw FormatError(origin + ": " + place + ": more than " + std::to_string(kMaxCandidates) +
                        " candidates; list fewer values");
    std::vector<json::Value> longer;
    for (const json::Value &point : grid)
      for (const json::Value &choice : choices) {
        longer.push_back(point);
        longer.back()[key] = choice;
      }
    grid = std::move(longer);
  }
  for (json::Value &point : grid) points.push_back({place, std::move(point)});
}

graph::Scheme scheme_of(const json::Value &settings, const std::string &place) {
  const auto text = [&](const char *key) {
    return settings.contains(key) && settings.at(key).is_string() ? settings.at(key).get<std::string>() : "";
  };
  graph::Scheme scheme;
  at_place(place + "/head", [&] {
    if (!settings.contains("head"))
      scheme.head = graph::Head{};
    else if (settings.at("head").is_string())
      scheme.head = graph::Head::parse(text("head"));
  });
  at_place(place + "/pool", [&] {
    if (settings.contains("pool")) scheme.pool = graph::pool_from_name(text("pool"));
  });
  scheme.features = text("features");
  scheme.train = text("train");
  return scheme;
}

std::size_t model_index(const std::string &name, const std::vector<ModelEntry> &models,
                        const std::string &place) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name) return i;
    names.push_back(models[i].name);
  }
  const std::string hint = json::suggestion(name, names);
  throw FormatError(place + "/model: there is no model called '" + name + "'" +
                    (hint.empty() ? "" : ": " + hint));
}

bool is_option(const std::string &key) {
  return key != "model" && key != "features" && key != "pool" && key != "head" && key != "train";
}

Spec spec_of(const Point &point, const Experiment &experiment) {
  const std::string place = experiment.origin + ": " + point.place;
  Spec spec;
  spec.place = point.place;
  spec.model = model_index(point.settings.at("model").get<std::string>(), experiment.models, place);
  spec.scheme = scheme_of(point.settings, place);
  json::Value options = {{"seed", experiment.seed},
                         {"validation", experiment.validation},
                         {"monitor", train::name_of(experiment.metric)}};
  for (const auto &[key, value] : point.settings.items())
    if (is_option(key)) options[key] = value;
  spec.options = train::options_from_json(options, place);
  return spec;
}

/// Fields that say more than one thing among the candidates; one that is left out says something too.
std::set<std::string> varying(const std::vector<Point> &points) {
  std::map<std::string, std::set<std::string>> said;
  for (const Point &point : points)
    for (const auto &[key, value] : point.settings.items()) said[key];
  for (const Point &point : points)
    for (auto &[key, values] : said)
      values.insert(point.settings.contains(key) ? json::compact(point.settings.at(key)) : "");
  std::set<std::string> result;
  for (const auto &[key, values] : said)
    if (values.size() > 1) result.insert(key);
  return result;
}

std::string name_of(const Spec &spec, const Point &point, const Experiment &experiment,
                    const std::set<std::string> &fields) {
  const graph::Scheme &scheme = spec.scheme;
  std::string name = experiment.models[spec.model].name;
  if (!scheme.features.empty()) name += "/" + scheme.features;
  std::string trained = scheme.head ? scheme.head->text() : "";
  if (!scheme.train.empty()) trained += (trained.empty() ? "" : "+") + scheme.train;
  name += "/" + trained + "/" + std::string(train::name_of(spec.options.optimizer)) + "-lr" +
          json::compact(spec.options.lr);
  for (const auto &[key, value] : point.settings.items()) {
    const bool there = key == "model" || key == "features" || key == "head" || key == "train" ||
                       key == "optimizer" || key == "lr";
    if (there || fields.count(key) == 0) continue;
    name += "-" + key + (value.is_string() ? value.get<std::string>() : json::compact(value));
  }
  return name;
}

} // namespace

Experiment experiment_from_json(const json::Value &document, const std::string &origin,
                                const std::string &folder) {
  json::check_keys(document, "experiment", origin);
  json::validate(document, "experiment", origin);
  Experiment experiment;
  experiment.origin = origin;
  experiment.models = models_of(document.at("models"), origin, folder);
  experiment.seed = document.value("seed", std::uint64_t{0});
  experiment.validation = document.value("validation", experiment.validation);
  for (const train::Monitor metric :
       {train::Monitor::loss, train::Monitor::accuracy, train::Monitor::balanced_accuracy})
    if (document.value("metric", "accuracy") == train::name_of(metric)) experiment.metric = metric;
  experiment.data = data_of(document, experiment.seed);

  const json::Value defaults = document.value("defaults", json::Value::object());
  std::vector<Point> points;
  const json::Value &grids = document.at("candidates");
  for (std::size_t i = 0; i < grids.size(); ++i)
    expand(merged(defaults, grids[i], experiment.models), origin, "/candidates/" + std::to_string(i), points);
  const std::set<std::string> fields = varying(points);
  for (const Point &point : points) {
    Spec spec = spec_of(point, experiment);
    spec.name = name_of(spec, point, experiment, fields);
    experiment.candidates.push_back(std::move(spec));
  }
  return experiment;
}

Experiment load_experiment(const std::string &path) {
  const std::string origin = path == "-" ? "stdin" : path;
  const std::string folder = path == "-" ? "" : fs::path(path).parent_path().string();
  return experiment_from_json(json::parse(cli::read_file(path, kMaxDocumentBytes), origin), origin, folder);
}

} // namespace tl::select
