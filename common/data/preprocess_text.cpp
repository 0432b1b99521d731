// The --preprocess option: presets, settings and files.
#include "cli/error.h"
#include "cli/io.h"
#include "data/preprocess.h"

#include <filesystem>

namespace tl::data {

namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;

struct Preset {
  const char *name;
  const char *json;
};
// The ImageNet statistics are the ones that torchvision's pretrained networks were trained with.
constexpr Preset kPresets[] = {
    {"imagenet", R"({"resize": [256], "crop": [224, 224],
                     "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]})"},
    {"imagenet-232", R"({"resize": [232], "crop": [224, 224],
                         "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]})"},
    {"raw", "{}"},
    {"tensor", R"({"kind": "tensor"})"},
    {"tokens", R"({"kind": "tokens"})"},
};

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

double number(const std::string &text, const std::string &setting) {
  try {
    return json::Value::parse(text).get<double>(); // not strtod: it follows the locale
  } catch (const json::Value::exception &) {
    throw UsageError("--preprocess: " + setting + ": '" + text + "' is not a number");
  }
}

std::int64_t whole(const std::string &text, const std::string &setting) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || text.size() > 12)
    throw UsageError("--preprocess: " + setting + ": '" + text + "' is not a whole number");
  return std::stoll(text);
}

/// "none" -> {}; "256" -> {256}; "224x224" -> {224, 224}.
json::Value sides(const std::string &text, const std::string &setting) {
  json::Value list = json::Value::array();
  if (text == "none") return list;
  for (const std::string &part : split(text, 'x')) list.push_back(whole(part, setting));
  return list;
}

json::Value numbers(const std::string &text, const std::string &setting) {
  json::Value list = json::Value::array();
  if (text == "none") return list;
  for (const std::string &part : split(text, '/')) list.push_back(number(part, setting));
  return list;
}

bool yes_or_no(const std::string &text, const std::string &setting) {
  if (text == "yes" || text == "true" || text == "1") return true;
  if (text == "no" || text == "false" || text == "0") return false;
  throw UsageError("--preprocess: " + setting + ": '" + text + "' is neither yes nor no");
}

void apply_setting(json::Value &target, const std::string &setting) {
  const std::size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  const std::string text = setting.substr(equals + 1);
  if (key == "resize")
    target[key] = sides(text, setting);
  else if (key == "crop") {
    target[key] = sides(text, setting);
    if (target[key].size() == 1) target[key].push_back(target[key][0]); // crop=224 is a square
  } else if (key == "mean" || key == "std")
    target[key] = numbers(text, setting);
  else if (key == "antialias" || key == "scale")
    target[key] = yes_or_no(text, setting);
  else if (key == "channels" || key == "max_pixels")
    target[key] = whole(text, setting);
  else
    target[key] = text;
}

std::string known_presets() {
  std::string list;
  for (const Preset &preset : kPresets) list += (list.empty() ? "" : ", ") + std::string(preset.name);
  return list;
}

} // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset &preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Preprocess parse_preprocess(const std::string &text) {
  std::error_code failed;
  if (text.find('=') == std::string::npos && std::filesystem::is_regular_file(text, failed))
    return preprocess_from_json(json::parse(cli::read_file(text, kMaxFileBytes), text), text);
  json::Value target = json::Value::object();
  bool first = true;
  for (const std::string &part : split(text, ',')) {
    if (part.find('=') != std::string::npos)
      apply_setting(target, part);
    else {
      const Preset *found = nullptr;
      for (const Preset &preset : kPresets)
        if (part == preset.name) found = &preset;
      if (!found || !first)
        throw UsageError("--preprocess: '" + part + "' is neither a preset (" + known_presets() +
                         "), a file, nor a setting such as resize=256 " +
                         json::suggestion(part, preset_names()));
      target = json::parse(found->json, found->name);
    }
    first = false;
  }
  try {
    return preprocess_from_json(target, "'" + text + "'");
  } catch (const FormatError &error) {
    throw UsageError(error.what()); // written on the command line, not in a file
  }
}

} // namespace tl::data
