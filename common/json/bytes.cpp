#include "json/bytes.h"

#include "cli/error.h"
#include "cli/log.h"
#include "cli/utf8.h"

#include <cstdio>
#include <string_view>

namespace tl::json {

namespace {
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}
} // namespace

std::string escape_bytes(const std::string &bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = cli::utf8_length(std::string_view(bytes).substr(i));
    if (length == 0 || bytes[i] == '\\') {
      char hex[5];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
      text += hex;
      ++i;
    } else {
      text.append(bytes, i, length);
      i += length;
    }
  }
  return text;
}

std::string unescape_bytes(const std::string &text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    const bool whole = i + 3 < text.size() && text[i + 1] == 'x';
    const int high = whole ? hex_value(text[i + 2]) : -1;
    const int low = whole ? hex_value(text[i + 3]) : -1;
    if (high < 0 || low < 0)
      throw FormatError("'" + cli::printable(text) + "': a backslash that does not start \\xNN");
    bytes += static_cast<char>(high * 16 + low);
    i += 3;
  }
  return bytes;
}

} // namespace tl::json
