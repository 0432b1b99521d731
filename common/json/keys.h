#pragma once

#include "json/document.h"

#include <string>
#include <string_view>

namespace tl::json {

/// Throws FormatError "origin: /place: unknown key 'x': did you mean 'y'?" for a key that the schema of
/// that name does not have there. validate() refuses such keys too, but cannot help; documents that people
/// write by hand are checked with this first.
void check_keys(const Value &document, std::string_view schema, const std::string &origin);

} // namespace tl::json
