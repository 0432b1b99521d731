#include "train/report.h"

#include "cli/log.h"
#include "cli/version.h"
#include "json/bytes.h"

#include <cstdio>

namespace tl::train {

namespace {
std::string number(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent(double part) { return number("%.1f %%", 100 * part); }
} // namespace

json::Value metrics_line(const char *event) {
  return {{"format", "tl-metrics"}, {"version", 1}, {"event", event}};
}

json::Value classes_json(const std::vector<std::string> &classes) {
  json::Value names = json::Value::array();
  for (const std::string &name : classes) names.push_back(json::escape_bytes(name));
  return names;
}

json::Value start_line(const Setup &setup, const TrainOptions &options, std::int64_t resumed_after) {
  json::Value line = metrics_line("start");
  line["epoch"] = resumed_after;
  line["model"] = json::escape_bytes(setup.network.model.path);
  line["scheme"] = graph::to_json(setup.scheme);
  line["cut"] = setup.cut;
  line["classes"] = classes_json(setup.classes);
  line["options"] = to_json(options);
  return line;
}

json::Value epoch_line(const EpochResult &result, std::int64_t steps) {
  json::Value line = metrics_line("epoch");
  line["epoch"] = result.epoch;
  line["steps"] = steps;
  line["lr"] = result.train.lr;
  line["train"] = {{"records", result.train.records}, {"loss", result.train.loss}};
  line["validation"] = result.validation ? result.validation->to_json() : json::Value(nullptr);
  line["best"] = result.best;
  line["seconds"] = result.seconds;
  line["records_per_second"] = share(static_cast<double>(result.records), result.seconds);
  line["waiting"] = std::min(1.0, share(result.waited, result.seconds));
  line["stages"] = {
      {"wait", result.waited}, {"frozen", result.frozen_seconds}, {"train", result.train_seconds}};
  return line;
}

std::string describe(const EpochResult &result, std::int64_t epochs) {
  std::string text = "epoch " + std::to_string(result.epoch) + "/" + std::to_string(epochs) +
                     ": train loss " + number("%.4f", result.train.loss);
  if (result.validation)
    text += ", validation loss " + number("%.4f", result.validation->loss()) + ", accuracy " +
            percent(result.validation->accuracy()) + " (balanced " +
            percent(result.validation->balanced_accuracy()) + ")" + (result.best ? ", best so far" : "");
  const double rate = share(static_cast<double>(result.records), result.seconds);
  return text + "; rate " + number("%.3g", result.train.lr) + ", " + cli::human_seconds(result.seconds) +
         ", " + number("%.0f", rate) + " records/s, waited " +
         percent(std::min(1.0, share(result.waited, result.seconds))) + ", frozen " +
         percent(share(result.frozen_seconds, result.seconds)) + ", training " +
         percent(share(result.train_seconds, result.seconds));
}

std::string describe_recall(const json::Value &validation, const std::vector<std::string> &classes) {
  std::string text;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const json::Value &recall = validation.at("recall").at(c);
    text += (text.empty() ? "recall: " : ", ") + cli::printable(classes[c]) + " " +
            (recall.is_null() ? "-" : percent(recall.get<double>()));
  }
  return text;
}

json::Value model_document(const Setup &setup, const TrainOptions &options, std::int64_t best_epoch,
                           const json::Value &validation) {
  const model::InputSpec input = setup.network.model.input();
  return {{"format", "tl-model"},
          {"version", 1},
          {"tool", cli::version()},
          {"input", {{"dtype", name_of(input.dtype)}, {"shape", input.shape}}},
          {"preprocess", data::to_json(setup.preprocess)},
          {"classes", classes_json(setup.classes)},
          {"scheme", graph::to_json(setup.scheme)},
          {"plan", setup.plan == Digest() ? json::Value(nullptr) : json::Value(setup.plan.hex())},
          {"options", to_json(options)},
          {"epoch", best_epoch},
          {"validation", validation}};
}

} // namespace tl::train
