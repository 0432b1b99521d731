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
constexpr std::size_t kMaxDepth = 64;

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

/// Looks at a text before it is built: JSON, its depth, its keys. A parser callback could do this,
/// but nlohmann's searches the parent at the end of every value, which is quadratic.
template <class Json> class Checker : public nlohmann::json_sax<Json> {
public:
  Checker(const std::string &text, const std::string &origin) : text_(text), origin_(origin) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename Json::number_integer_t) override { return true; }
  bool number_unsigned(typename Json::number_unsigned_t) override { return true; }
  bool number_float(typename Json::number_float_t, const std::string &) override { return true; }
  bool string(std::string &) override { return true; }
  bool binary(typename Json::binary_t &) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(std::string &name) override {
    if (!keys_.back().insert(name).second)
      throw FormatError(origin_ + ": key " + compact(name) + " is there twice in one object");
    return true;
  }
  bool parse_error(std::size_t byte, const std::string &, const nlohmann::detail::exception &error) override {
    std::string what = error.what();
    const std::size_t cut = what.find("syntax error");
    if (cut != std::string::npos) what = what.substr(cut);
    throw FormatError(origin_ + ":" + place_of(text_, byte) + ": not JSON: " + what);
  }

private:
  bool open() {
    if (keys_.size() > kMaxDepth) throw FormatError(origin_ + ": nested deeper than 64 levels");
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::string &text_;
  const std::string &origin_;
  std::vector<std::set<std::string>> keys_; // of each object that is open; empty for arrays
};

template <class Json> Json parse_as(const std::string &text, const std::string &origin) {
  Checker<Json> checker(text, origin);
  Json::sax_parse(text, &checker);
  return Json::parse(text);
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
