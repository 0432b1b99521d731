// Every small damage to a JSON document: fields removed, values of another type, extra keys.
#pragma once

#include "json/document.h"

#include <string>
#include <vector>

namespace tl::test {

struct Mutation {
  std::string what; // "remove /model/path"
  std::string kind; // "remove", "retype", "extra"
  json::Value document;
};

namespace detail {

inline json::Value other_type(const json::Value &value) {
  if (value.is_string()) return 17;
  if (value.is_object() || value.is_array()) return "text";
  return json::Value::array({json::Value::object()});
}

/// Pointers to every value below `value`; of a long array the first and the last item.
inline void collect(const json::Value &value, const json::Value::json_pointer &at,
                    std::vector<json::Value::json_pointer> &out) {
  if (value.is_object()) {
    for (const auto &[key, item] : value.items()) {
      out.push_back(at / key);
      collect(item, at / key, out);
    }
  } else if (value.is_array() && !value.empty()) {
    for (std::size_t i : {std::size_t{0}, value.size() - 1}) {
      out.push_back(at / i);
      collect(value[i], at / i, out);
      if (value.size() == 1) break;
    }
  }
}

} // namespace detail

inline std::vector<Mutation> mutations(const json::Value &document) {
  std::vector<json::Value::json_pointer> places;
  detail::collect(document, json::Value::json_pointer(), places);
  std::vector<Mutation> result;
  for (const auto &place : places) {
    const std::string name = place.to_string();
    json::Value retyped = document;
    retyped[place] = detail::other_type(document[place]);
    result.push_back({"retype " + name, "retype", retyped});
    if (document[place].is_object()) {
      json::Value extra = document;
      extra[place]["surprise"] = 1;
      result.push_back({"extra " + name, "extra", extra});
    }
    const json::Value &parent = document[place.parent_pointer()];
    if (!parent.is_object()) continue;
    json::Value removed = document;
    removed[place.parent_pointer()].erase(place.back());
    result.push_back({"remove " + name, "remove", removed});
  }
  return result;
}

} // namespace tl::test
