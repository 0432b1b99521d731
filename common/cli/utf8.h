#pragma once

#include <cstddef>
#include <string_view>

namespace tl::cli {

/// Length of the UTF-8 sequence that `text` begins with; 0 when it is not valid UTF-8 (overlong
/// forms, surrogates and code points over U+10FFFF are not).
std::size_t utf8_length(std::string_view text);

/// True if all of `text` is valid UTF-8.
bool is_utf8(std::string_view text);

} // namespace tl::cli
