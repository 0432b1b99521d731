#include "json/document.h"

#include "cli/error.h"
#include "cli/io.h"

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>
#include <set>
#include <vector>

namespace tl::json {

// Written by cmake/EmbedSchemas.cmake from schemas/.
struct EmbeddedSchema {
  std::string_view name;
  std::string_view text;
};
extern const EmbeddedSchema kEmbeddedSchemas[];
extern const std::size_t kEmbeddedSchemaCount;

namespace {

// The largest document is a profile of a graph of some thousand values.
constexpr std::size_t kMaxDocumentBytes = std::size_t{256} << 20;
constexpr int kMaxDepth = 64;

std::string place_of(const std::string &text, std::size_t byte) {
  byte = std::min(byte, text.size());
  const auto begin = text.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(byte);
  const auto line = 1 + std::count(begin, end, '\n');
  const std::size_t last = byte == 0 ? std::string::npos : text.rfind('\n', byte - 1);
  const std::size_t column = last == std::string::npos ? byte : byte - last - 1;
  return std::to_string(line) + ":" + std::to_string(std::max<std::size_t>(column, 1));
}

std::string unescape_pointer_path(const std::vector<std::string> &context) {
  std::string path;
  for (const std::string &part : context) { // "<root>", "[key]", ...
    if (part == "<root>") continue;
    path += "/" + (part.size() > 1 && part.front() == '[' ? part.substr(1, part.size() - 2) : part);
  }
  return path.empty() ? "the document" : path;
}

int version_in(std::string_view schema) {
  const auto root = nlohmann::json::parse(schema_text(schema));
  return root.at("properties").at("version").at("const").get<int>();
}

void check_format(const Value &document, std::string_view schema, const std::string &origin) {
  const std::string want = "tl-" + std::string(schema);
  if (!document.is_object()) throw FormatError(origin + ": not a JSON object; want a " + want + " document");
  const auto format = document.find("format");
  if (format == document.end() || !format->is_string() || *format != want) {
    const bool other = format != document.end() && format->is_string();
    throw FormatError(origin + ": this is " +
                      (other ? "a " + format->get<std::string>() + " document" : "no tl-tools document") +
                      "; want \"format\": \"" + want + "\"");
  }
  const auto version = document.find("version");
  const int known = version_in(schema);
  if (version == document.end() || !version->is_number_integer())
    throw FormatError(origin + ": /version: missing or not a whole number");
  if (*version > known)
    throw FormatError(origin + ": written by a newer tl-tools (version " + version->dump() +
                      " of the format, this program reads up to " + std::to_string(known) + "); upgrade");
}

template <class Json> Json parse_as(const std::string &text, const std::string &origin) {
  using Event = typename Json::parse_event_t;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Event event, Json &parsed) {
    if (depth > kMaxDepth) throw FormatError(origin + ": nested deeper than 64 levels");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.template get<std::string>()).second)
      throw FormatError(origin + ": key " + parsed.dump() + " is there twice in one object");
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const typename Json::parse_error &error) {
    std::string what = error.what();
    const std::size_t cut = what.find("syntax error");
    if (cut != std::string::npos) what = what.substr(cut);
    throw FormatError(origin + ":" + place_of(text, error.byte) + ": not JSON: " + what);
  } catch (const typename Json::out_of_range &error) {
    throw FormatError(origin + ": not JSON: " + error.what());
  }
}

} // namespace

Value parse(const std::string &text, const std::string &origin) { return parse_as<Value>(text, origin); }

nlohmann::json parse_sorted(const std::string &text, const std::string &origin) {
  return parse_as<nlohmann::json>(text, origin);
}

void validate(const Value &document, std::string_view schema, const std::string &origin) {
  check_format(document, schema, origin);
  // valijson has an adapter for nlohmann::json only; the ordered kind is copied.
  const nlohmann::json rules = nlohmann::json::parse(schema_text(schema));
  const nlohmann::json target = document;
  valijson::Schema compiled;
  valijson::SchemaParser parser;
  const valijson::adapters::NlohmannJsonAdapter rules_adapter(rules);
  parser.populateSchema(rules_adapter, compiled);
  valijson::Validator validator;
  valijson::ValidationResults results;
  const valijson::adapters::NlohmannJsonAdapter target_adapter(target);
  if (validator.validate(compiled, target_adapter, &results)) return;
  // The deepest complaint names the place that the user must change; the others follow from it.
  valijson::ValidationResults::Error error, deepest;
  while (results.popError(error))
    if (error.context.size() >= deepest.context.size()) deepest = error;
  throw FormatError(origin + ": " + unescape_pointer_path(deepest.context) + ": " + deepest.description);
}

Value load(const std::string &path, std::string_view schema) {
  const std::string origin = path == "-" ? "stdin" : path;
  Value document = parse(cli::read_file(path, kMaxDocumentBytes), origin);
  validate(document, schema, origin);
  return document;
}

std::string_view schema_text(std::string_view name) {
  for (std::size_t i = 0; i < kEmbeddedSchemaCount; ++i)
    if (kEmbeddedSchemas[i].name == name) return kEmbeddedSchemas[i].text;
  throw Error("no schema named '" + std::string(name) + "'");
}

std::string suggestion(const std::string &word, const std::vector<std::string> &known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string &candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t above = row[j];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (word[i - 1] != candidate[j - 1])});
        diagonal = above;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best.empty() ? "" : "did you mean '" + best + "'?";
}

std::string compact(const Value &value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}
std::string pretty(const Value &value) {
  return value.dump(2, ' ', false, Value::error_handler_t::replace) + "\n";
}

} // namespace tl::json
