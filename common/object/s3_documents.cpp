#include "object/s3_documents.h"

#include "cli/log.h"

#include <charconv>
#include <pugixml.hpp>

namespace tl::object {

namespace {

[[noreturn]] void not_s3(const std::string &origin, const std::string &what) {
  throw ObjectError(ObjectError::Kind::failed,
                    origin + ": the answer " + what + "; is AWS_ENDPOINT_URL the address of an S3 server?");
}

pugi::xml_node root(pugi::xml_document &document, const std::string &body, const char *name,
                    const std::string &origin) {
  const pugi::xml_parse_result parsed = document.load_buffer(body.data(), body.size());
  if (!parsed)
    not_s3(origin,
           std::string("is not XML: ") + parsed.description() + " at byte " + std::to_string(parsed.offset));
  const pugi::xml_node node = document.child(name);
  if (!node) not_s3(origin, std::string("is XML, but no ") + name);
  return node;
}

std::uint64_t size_of(const pugi::xml_node &object, const std::string &origin) {
  const std::string text = object.child_value("Size");
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size())
    not_s3(origin, "lists an object without a size");
  return size;
}

} // namespace

Refusal parse_s3_error(const std::string &body) {
  pugi::xml_document document;
  if (body.empty() || !document.load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node error = document.child("Error");
  return {error.child_value("Code"), error.child_value("Message")};
}

Page parse_s3_listing(const std::string &body, const std::string &origin) {
  pugi::xml_document document;
  const pugi::xml_node result = root(document, body, "ListBucketResult", origin);
  const bool encoded = std::string_view(result.child_value("EncodingType")) == "url";
  const auto decoded = [&](const char *text) { return encoded ? percent_decode(text) : std::string(text); };
  Page page;
  for (const pugi::xml_node &object : result.children("Contents")) {
    ObjectInfo info{decoded(object.child_value("Key")), size_of(object, origin),
                    bare_etag(object.child_value("ETag"))};
    if (info.key.empty()) not_s3(origin, "lists an object without a key");
    page.list.objects.push_back(std::move(info));
  }
  for (const pugi::xml_node &common : result.children("CommonPrefixes"))
    page.list.prefixes.push_back(decoded(common.child_value("Prefix")));
  const std::string_view truncated = result.child_value("IsTruncated");
  if (truncated != "true" && truncated != "false")
    not_s3(origin, "does not say whether the listing is whole");
  if (truncated == "true") {
    page.next = result.child_value("NextContinuationToken");
    if (page.next.empty()) not_s3(origin, "is cut off and does not say where to go on");
  }
  return page;
}

std::string parse_s3_upload(const std::string &body, const std::string &origin) {
  pugi::xml_document document;
  std::string id = root(document, body, "InitiateMultipartUploadResult", origin).child_value("UploadId");
  if (id.empty()) not_s3(origin, "names no upload");
  return id;
}

std::string s3_parts(const std::vector<std::string> &etags) {
  pugi::xml_document document;
  pugi::xml_node list = document.append_child("CompleteMultipartUpload");
  for (std::size_t i = 0; i < etags.size(); ++i) {
    pugi::xml_node part = list.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned long long>(i + 1));
    part.append_child("ETag").text().set(("\"" + etags[i] + "\"").c_str());
  }
  struct Text : pugi::xml_writer {
    std::string text;
    void write(const void *data, std::size_t size) override {
      text.append(static_cast<const char *>(data), size);
    }
  } text;
  document.save(text, "", pugi::format_raw);
  return text.text;
}

} // namespace tl::object
