#include "object/url.h"

#include "cli/error.h"
#include "cli/log.h"

#include <algorithm>

namespace tl::object {

namespace {

constexpr std::string_view kSchemes[] = {"s3", "swift"};

bool unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

} // namespace

std::string Url::text() const { return scheme + "://" + bucket + (key.empty() ? "" : "/" + key); }

bool is_url(const std::string &text) {
  return std::any_of(std::begin(kSchemes), std::end(kSchemes), [&](std::string_view scheme) {
    return text.compare(0, scheme.size(), scheme) == 0 && text.compare(scheme.size(), 3, "://") == 0;
  });
}

Url parse_url(const std::string &text) {
  const std::string shown = cli::printable(text);
  if (!is_url(text)) throw UsageError(shown + ": want s3://BUCKET/PREFIX or swift://CONTAINER/PREFIX");
  Url url;
  const std::size_t colon = text.find(':'), slash = text.find('/', colon + 3);
  url.scheme = text.substr(0, colon);
  url.bucket = text.substr(colon + 3, slash == std::string::npos ? slash : slash - colon - 3);
  if (slash != std::string::npos) url.key = text.substr(slash + 1);
  if (url.bucket.empty()) throw UsageError(shown + ": names no bucket");
  // A bucket of S3 becomes part of a host name or path; nothing else may get in that way.
  const bool plain = std::all_of(url.bucket.begin(), url.bucket.end(), unreserved) && url.bucket[0] != '.';
  if (url.scheme == "s3" && !plain)
    throw UsageError(shown + ": '" + cli::printable(url.bucket) +
                     "' cannot be a bucket's name (letters, digits, '.', '-'); give the endpoint by "
                     "AWS_ENDPOINT_URL");
  return url;
}

std::string as_folder(const std::string &prefix) {
  return prefix.empty() || prefix.back() == '/' ? prefix : prefix + "/";
}

std::string percent_encode(std::string_view bytes, bool keep_slashes) {
  static const char kDigits[] = "0123456789ABCDEF";
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (unreserved(c) || (keep_slashes && c == '/')) {
      text += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text += '%';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string percent_decode(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    if (low >= 0) {
      bytes += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      bytes += text[i] == '+' ? ' ' : text[i];
    }
  }
  return bytes;
}

std::string query_string(Query query) {
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto &[name, value] : query)
    text += (text.empty() ? "" : "&") + percent_encode(name) + "=" + percent_encode(value);
  return text;
}

} // namespace tl::object
