// Names of objects, s3://BUCKET/KEY and swift://CONTAINER/KEY, and the one place that percent-encodes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tl::object {

struct Url {
  std::string scheme; // "s3" or "swift"
  std::string bucket; // S3 calls it a bucket, Swift a container
  std::string key;    // any bytes, as they are: never percent-encoded here; "" for the whole bucket

  std::string text() const; // "s3://bucket/key"
};

/// True for "s3://..." and "swift://...".
bool is_url(const std::string &text);
/// Throws UsageError for another scheme, or a bucket's name that cannot be one.
Url parse_url(const std::string &text);

/// `prefix` as a folder's: "a/b" and "a/b/" give "a/b/", "" gives "".
std::string as_folder(const std::string &prefix);

/// Every byte but A-Z a-z 0-9 - . _ ~ becomes %XX, as Signature Version 4 wants it (RFC 3986, unreserved).
std::string percent_encode(std::string_view bytes, bool keep_slashes = false);
/// The inverse. S3 listings write a space as '+'; a '%' without two hexadecimal digits stays.
std::string percent_decode(std::string_view text);

using Query = std::vector<std::pair<std::string, std::string>>;
/// "a=1&b=" sorted by name; bare parameters get their '=', as Signature Version 4 wants them.
std::string query_string(Query query);

} // namespace tl::object
