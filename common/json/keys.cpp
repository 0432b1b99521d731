#include "json/keys.h"

#include "cli/error.h"

namespace tl::json {

namespace {

class KeyChecker {
public:
  KeyChecker(const Value &root, std::string origin) : root_(root), origin_(std::move(origin)) {}

  void check(const Value &value, const Value &rules, const std::string &place) const {
    const Value &here = resolved(rules);
    if (value.is_array() && here.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i)
        check(value[i], here.at("items"), place + "/" + std::to_string(i));
    }
    if (!value.is_object() || !here.contains("properties")) return;
    const Value &known = here.at("properties");
    for (const auto &[key, item] : value.items()) {
      if (known.contains(key))
        check(item, known.at(key), place + "/" + key);
      else if (here.value("additionalProperties", true) == false)
        refuse(key, known, place);
    }
  }

private:
  /// Follows "$ref": "#/definitions/name".
  const Value &resolved(const Value &rules) const {
    if (!rules.contains("$ref")) return rules;
    return root_.at(Value::json_pointer(rules.at("$ref").get<std::string>().substr(1)));
  }

  [[noreturn]] void refuse(const std::string &key, const Value &known, const std::string &place) const {
    std::vector<std::string> names;
    for (const auto &[name, rules] : known.items()) names.push_back(name);
    std::string hint = suggestion(key, names);
    if (hint.empty()) {
      hint = "known are ";
      for (std::size_t i = 0; i < names.size(); ++i) hint += (i ? ", " : "") + names[i];
    }
    throw FormatError(origin_ + ": " + (place.empty() ? "the document" : place) + ": unknown key " +
                      compact(key) + ": " + hint);
  }

  const Value &root_;
  std::string origin_;
};

} // namespace

void check_keys(const Value &document, std::string_view schema, const std::string &origin) {
  const Value root = Value::parse(schema_text(schema));
  KeyChecker(root, origin).check(document, root, "");
}

} // namespace tl::json
