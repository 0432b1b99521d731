// Names are bytes; JSON holds UTF-8. This is the one way in which bytes cross JSON here.
#pragma once

#include <string>

namespace tl::json {

/// UTF-8 stays as it is; a byte that is not part of valid UTF-8 becomes \xNN, a backslash \x5c.
std::string escape_bytes(const std::string &bytes);
/// The exact reverse. Throws FormatError for a backslash that does not start \xNN.
std::string unescape_bytes(const std::string &text);

} // namespace tl::json
