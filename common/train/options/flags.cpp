#include "train/options/flags.h"

#include "cli/error.h"

namespace tl::train {

namespace {
constexpr const char *kGroup = "Training";

/// An option whose text goes into `given` under its JSON key; options_from_json() judges it.
template <class T> void add(CLI::App &app, const std::shared_ptr<json::Value> &given, const std::string &name,
                            const std::string &description, const std::string &type) {
  std::string key = name.substr(name.find("--") + 2);
  for (char &c : key)
    if (c == '-') c = '_';
  app.add_option_function<T>(
         name, [given, key](const T &value) { (*given)[key] = value; }, description)
      ->type_name(type)
      ->group(kGroup);
}
} // namespace

TrainFlags::TrainFlags(CLI::App &app) : given_(std::make_shared<json::Value>(json::Value::object())) {
  const auto number = [&](const char *name, const char *description) {
    add<double>(app, given_, name, description, "X");
  };
  const auto count = [&](const char *name, const char *description) {
    add<std::int64_t>(app, given_, name, description, "N");
  };
  const auto text = [&](const char *name, const char *description, const char *type) {
    add<std::string>(app, given_, name, description, type);
  };
  count("--epochs", "Passes over the training records [10]");
  count("--batch", "Records a step [32]");
  text("--optimizer", "sgd, adam or adamw [adam]", "NAME");
  number("--lr", "Learning rate [0.001; sgd 0.01]");
  number("--momentum", "Of sgd [0.9]");
  number("--weight-decay", "As torch.optim defines it [0; adamw 0.01]");
  text("--schedule", "constant, cosine, step:EPOCHS or step:EPOCHS:FACTOR [constant]", "RULE");
  count("--warmup", "Steps over which the rate rises linearly at the start [0]");
  number("--clip-norm", "Largest 2-norm of the gradients, 0: not clipped [0]");
  number("--label-smoothing", "Share of the target spread over all classes [0]");
  text("--class-weights", "none or balanced: rare classes weigh more in the loss [none]", "RULE");
  number("--validation", "Share of the records for validation, by content [0.2]");
  text("--monitor", "What the best epoch is best in: loss, accuracy, balanced-accuracy [loss]", "FIGURE");
  count("--patience", "Stop after so many epochs without a better one, 0: never [0]");
  add<std::uint64_t>(app, given_, "--seed", "Of the head, the order and the validation split [0]", "N");
}

TrainOptions TrainFlags::options() const {
  try {
    return options_from_json(*given_, "options");
  } catch (const FormatError &error) {
    const std::string what = error.what(); // "options: weight_decay: ...": as the user wrote it
    throw UsageError(what.substr(std::string("options: ").size()));
  }
}

} // namespace tl::train
