// JSON documents that the programs exchange: read with a bound, checked against the JSON Schema
// in schemas/ and for their format and version before anybody looks inside.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace tl::json {

/// Keys keep their order, so that documents read as they were written.
using Value = nlohmann::ordered_json;

/// Parses `text`. Throws FormatError "origin:line:column: ...". Duplicate keys are refused.
Value parse(const std::string &text, const std::string &origin);
/// The same with sorted keys: an object of very many keys takes quadratic time as a Value.
nlohmann::json parse_sorted(const std::string &text, const std::string &origin);

/// Reads and parses a file ("-" is stdin), validates it against the schema of that name
/// ("profile", "plan", "experiment", ...), and checks "format": "tl-<schema>" and "version".
/// Throws FormatError naming the file, the place as a JSON pointer, what is wrong, what to do.
Value load(const std::string &path, std::string_view schema);

/// The same for a document already in memory. Tools also call it on what they are about to emit.
void validate(const Value &document, std::string_view schema, const std::string &origin);

/// The text of schemas/<name>.schema.json, compiled into the library. Throws Error if there is none.
std::string_view schema_text(std::string_view name);

/// "did you mean 'epochs'?" or "" when nothing in `known` is close to `word`.
std::string suggestion(const std::string &word, const std::vector<std::string> &known);

/// One line, no spaces: for JSON lines and for hashing.
std::string compact(const Value &value);
/// Indented, with a final newline: for files that people read.
std::string pretty(const Value &value);

} // namespace tl::json
