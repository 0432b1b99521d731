// A lease as a document.
#pragma once

#include "lease/directory.h"
#include "json/document.h"

#include <string>

namespace tl::lease {

std::string_view name_of(State state);

json::Value to_json(const Entry &entry);
/// Validates against schemas/lease.schema.json. Throws FormatError. The number is the file's name's.
Entry entry_from_json(const json::Value &document, const std::string &origin);

} // namespace tl::lease
