#include "select/experiment.h"

#include "cli/app.h"
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

std::vector<Space> spaces_of(const json::Value &document, const std::vector<ModelEntry> &models) {
  const json::Value defaults = document.value("defaults", json::Value::object());
  const json::Value &list = document.at("candidates");
  std::vector<Space> spaces;
  for (std::size_t i = 0; i < list.size(); ++i)
    spaces.push_back({"/candidates/" + std::to_string(i), merged(defaults, list[i], models)});
  return spaces;
}

std::optional<std::int64_t> budget_of(const json::Value &document, const std::string &key,
                                      const std::string &origin) {
  if (!document.contains("budget") || !document.at("budget").contains(key)) return std::nullopt;
  const json::Value &size = document.at("budget").at(key);
  if (size.is_number()) return size.get<std::int64_t>();
  auto text = size.get<std::string>();
  const std::string wrong = cli::size_in_bytes()(text);
  if (!wrong.empty()) throw FormatError(origin + ": /budget/" + key + ": " + wrong);
  return std::stoll(text);
}

/// What a strategy needs, and what it has no use for.
void check_search(const json::Value &search, const SearchSettings &settings, const std::string &place) {
  const auto refuse = [&](const std::string &what) {
    throw FormatError(place + ": the strategy " + std::string(name_of(settings.strategy)) + " " + what);
  };
  const auto has = [&](const char *key) { return search.contains(key); };
  for (const char *key : {"eta", "min_epochs", "max_epochs"})
    if (has(key) && !settings.by_rungs()) refuse(std::string("has no \"") + key + "\"");
  if (settings.by_rungs() && !has("max_epochs")) refuse("needs \"max_epochs\"");
  if (settings.by_rungs() && settings.min_epochs > settings.max_epochs)
    refuse("cannot start with more epochs (\"min_epochs\") than it ends with (\"max_epochs\")");
  if (settings.strategy == Strategy::random && !has("samples")) refuse("needs \"samples\"");
  if (settings.strategy == Strategy::grid && has("samples"))
    refuse("takes every combination; \"samples\" are for random and halving");
  if (settings.strategy == Strategy::hyperband && has("samples"))
    refuse("has its own number of samples, by \"eta\" and the epochs; leave \"samples\" out");
}

SearchSettings search_of(const json::Value &document, std::uint64_t seed, const std::string &origin) {
  SearchSettings settings;
  settings.seed = seed;
  if (!document.contains("search")) return settings;
  const json::Value &search = document.at("search");
  for (const Strategy strategy : {Strategy::random, Strategy::halving, Strategy::hyperband})
    if (search.at("strategy") == name_of(strategy)) settings.strategy = strategy;
  settings.samples = search.value("samples", settings.samples);
  settings.eta = search.value("eta", settings.eta);
  settings.min_epochs = search.value("min_epochs", settings.min_epochs);
  settings.max_epochs = search.value("max_epochs", settings.max_epochs);
  settings.seed = search.value("seed", settings.seed);
  check_search(search, settings, origin + ": /search");
  return settings;
}

/// The candidates' settings: the grid, or what is drawn.
std::vector<Point> points_of(const std::vector<Space> &spaces, const SearchSettings &search,
                             const std::string &origin) {
  if (search.by_rungs())
    for (const Space &space : spaces)
      if (space.fields.contains("epochs"))
        throw FormatError(origin + ": " + space.place +
                          "/epochs: the search says how long candidates train; " +
                          "leave \"epochs\" out of candidates and defaults");
  std::size_t samples = static_cast<std::size_t>(search.samples);
  if (search.strategy == Strategy::hyperband)
    for (const Bracket &bracket : brackets(search)) samples += bracket.candidates;
  if (samples == 0) return expand(spaces, origin);
  if (samples > kMaxCandidates)
    throw FormatError(origin + ": /search: " + std::to_string(samples) + " candidates are more than " +
                      std::to_string(kMaxCandidates) + "; raise \"min_epochs\" or lower \"eta\"");
  return draw(spaces, samples, search.seed, search.strategy == Strategy::hyperband, origin);
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
  at_place(place + "/adapters", [&] {
    if (!text("adapters").empty()) scheme.adapters = graph::Adapters::parse(text("adapters"));
  });
  scheme.features = text("features");
  scheme.train = text("train");
  if (settings.contains("unfreeze")) scheme.unfreeze = settings.at("unfreeze").get<std::int64_t>();
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
  static const std::set<std::string> scheme = {"model", "features", "pool",    "head",
                                               "train", "unfreeze", "adapters"};
  return scheme.count(key) == 0;
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
  if (experiment.search.by_rungs()) options["epochs"] = experiment.search.max_epochs;
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
  const auto also = [&](const std::string &what) { trained += (trained.empty() ? "" : "+") + what; };
  if (!scheme.train.empty()) also(scheme.train);
  if (scheme.unfreeze > 0) also("unfreeze" + std::to_string(scheme.unfreeze));
  if (scheme.adapters) also("adapters:" + scheme.adapters->text());
  name += "/" + trained + "/" + std::string(train::name_of(spec.options.optimizer)) + "-lr" +
          json::compact(spec.options.lr);
  for (const auto &[key, value] : point.settings.items()) {
    const bool there = key != "pool" && (!is_option(key) || key == "optimizer" || key == "lr");
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

  experiment.budget = {budget_of(document, "disk", origin), budget_of(document, "memory", origin)};
  experiment.search = search_of(document, experiment.seed, origin);
  const std::vector<Point> points =
      points_of(spaces_of(document, experiment.models), experiment.search, origin);
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
