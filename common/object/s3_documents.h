// Private to common/object: the XML of S3, read by pugixml, which knows neither entities nor networks.
#pragma once

#include "object/http_store.h"

namespace tl::object {

/// Code and Message; empty for anything else.
Refusal parse_s3_error(const std::string &body);
/// `origin`: the bucket, for messages. Throws ObjectError.
Page parse_s3_listing(const std::string &body, const std::string &origin);
/// The id of an upload in parts.
std::string parse_s3_upload(const std::string &body, const std::string &origin);
/// The list of parts that completes one.
std::string s3_parts(const std::vector<std::string> &etags);

} // namespace tl::object
