// Stores on a WebServer: a small S3 and a small Swift, with room for faults in front of them.
#pragma once

#include "object/store.h"
#include "object/url.h"
#include "support/environment.h"
#include "support/http_server.h"

#include <exception>
#include <functional>
#include <map>
#include <string>

namespace tl::test {

/// What an action throws says; "" when it throws nothing.
inline std::string message_of(const std::function<void()> &action) {
  try {
    action();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// A GET of an object whose key begins with "key".
inline bool asks_for_key(const WebRequest &request) {
  return has(request.path(), "/key") && request.method == "GET";
}

/// Answers until it is exhausted; then the store does. Nothing: let this request through.
using Fault = std::function<std::optional<WebReply>(const WebRequest &)>;

inline object::StoreOptions quick_options() {
  object::StoreOptions options;
  options.retry.base = 0.001;
  options.retry.longest = 0.01;
  options.retry.attempts = 4;
  return options;
}

/// Of both kinds: objects by "bucket/key".
class FakeStore {
public:
  std::map<std::string, std::string> objects;
  std::map<std::string, std::string> etags; // where not derived from the content
  std::size_t page = 3;

  std::string etag(const std::string &path) const {
    const auto found = etags.find(path);
    return found != etags.end() ? found->second
                                : "e" + std::to_string(std::hash<std::string>()(objects.at(path)));
  }

  WebReply object(const WebRequest &request, const std::string &path) {
    if (request.method == "PUT") return put(request, path);
    const auto found = objects.find(path);
    if (found == objects.end()) return {404, "", {}};
    if (request.method == "DELETE") {
      objects.erase(found);
      return {204, "", {}};
    }
    return read(request, path, found->second);
  }

private:
  WebReply put(const WebRequest &request, const std::string &path) {
    const auto condition = request.headers.find("if-none-match");
    if (condition != request.headers.end() && objects.count(path)) return {412, "", {}};
    objects[path] = request.body;
    return {201, "", {"ETag: \"" + etag(path) + "\""}};
  }

  WebReply read(const WebRequest &request, const std::string &path, const std::string &content) const {
    WebReply reply{200, content, {"ETag: \"" + etag(path) + "\""}};
    const auto condition = request.headers.find("if-match");
    if (condition != request.headers.end() && condition->second != "\"" + etag(path) + "\"")
      return {412, "", {}};
    const auto range = request.headers.find("range");
    if (range == request.headers.end()) return reply;
    const std::string &text = range->second; // bytes=A-B
    const std::size_t first = std::stoul(text.substr(6)), dash = text.find('-');
    const std::size_t last =
        dash + 1 < text.size() ? std::min<std::size_t>(std::stoul(text.substr(dash + 1)), content.size() - 1)
                               : content.size() - 1;
    if (first >= content.size()) return {416, "", {}};
    reply.status = 206;
    reply.body = content.substr(first, last - first + 1);
    reply.headers.push_back("Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) +
                            "/" + std::to_string(content.size()));
    return reply;
  }
};

class FakeS3 : public FakeStore {
public:
  explicit FakeS3(Fault fault = {})
      : environment({"AWS_", "HOME"}), fault_(std::move(fault)),
        server([this](const WebRequest &request) { return answer(request); }) {
    environment.set("AWS_ENDPOINT_URL", server.url());
    environment.set("AWS_ACCESS_KEY_ID", "AKEXAMPLE");
    environment.set("AWS_SECRET_ACCESS_KEY", "verysecret");
  }

  std::shared_ptr<const object::ObjectStore>
  open(const object::StoreOptions &options = quick_options()) const {
    return object::open_store(object::parse_url("s3://bucket"), options);
  }

  Environment environment;

private:
  WebReply answer(const WebRequest &request) {
    if (fault_)
      if (std::optional<WebReply> reply = fault_(request)) return *reply;
    const std::string path = object::percent_decode(request.path()).substr(1);
    if (path == "bucket/" && request.query("list-type") == "2") return list(request);
    if (path.compare(0, 7, "bucket/") != 0)
      return {404, "<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>", {}};
    if (request.target.find("?uploads=") != std::string::npos)
      return {200,
              "<InitiateMultipartUploadResult><UploadId>up/1+</UploadId></InitiateMultipartUploadResult>",
              {}};
    if (request.query("uploadId") != "") return part(request, path);
    return object(request, path);
  }

  WebReply part(const WebRequest &request, const std::string &path) {
    if (request.query("uploadId") != "up%2F1%2B") return {404, "", {}};
    if (request.method == "PUT") {
      parts_[std::stoi(request.query("partNumber"))] = request.body;
      return {200, "", {"ETag: \"p" + request.query("partNumber") + "\""}};
    }
    if (request.method == "DELETE") {
      parts_.clear();
      return {204, "", {}};
    }
    std::string whole;
    for (const auto &[number, bytes] : parts_) {
      if (request.body.find("<PartNumber>" + std::to_string(number) + "</PartNumber>") == std::string::npos)
        return {400, "<Error><Code>InvalidPart</Code></Error>", {}};
      whole += bytes;
    }
    objects[path] = whole;
    parts_.clear();
    return {200, "<CompleteMultipartUploadResult/>", {}};
  }

  WebReply list(const WebRequest &request) const {
    const std::string prefix = object::percent_decode(request.query("prefix"));
    const std::string from = object::percent_decode(request.query("continuation-token"));
    std::string body = "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>", last;
    std::size_t count = 0;
    bool more = false;
    for (const auto &[path, content] : objects) {
      const std::string key = path.substr(7);
      if (key.compare(0, prefix.size(), prefix) != 0 || (!from.empty() && key <= from)) continue;
      if (count++ == page) {
        more = true;
        break;
      }
      last = key;
      body += "<Contents><Key>" + object::percent_encode(key) + "</Key><Size>" +
              std::to_string(content.size()) + "</Size><ETag>&quot;" + etag(path) +
              "&quot;</ETag></Contents>";
    }
    body += more
                ? "<IsTruncated>true</IsTruncated><NextContinuationToken>" + last + "</NextContinuationToken>"
                : "<IsTruncated>false</IsTruncated>";
    return {200, body + "</ListBucketResult>", {}};
  }

  Fault fault_;
  std::map<int, std::string> parts_;

public:
  WebServer server; // last: it stops before what it uses goes
};

/// With tempauth v1 under /auth, and Keystone v3 under /identity/v3.
class FakeSwift : public FakeStore {
public:
  explicit FakeSwift(Fault fault = {})
      : environment({"ST_", "OS_"}), fault_(std::move(fault)),
        server([this](const WebRequest &request) { return answer(request); }) {
    environment.set("ST_AUTH", server.url() + "/auth");
    environment.set("ST_USER", "me");
    environment.set("ST_KEY", "verysecret");
  }

  void use_keystone() {
    environment.set("ST_AUTH", std::nullopt);
    environment.set("OS_AUTH_URL", server.url() + "/identity");
  }

  std::shared_ptr<const object::ObjectStore>
  open(const object::StoreOptions &options = quick_options()) const {
    return object::open_store(object::parse_url("swift://box"), options);
  }

  Environment environment;
  int tokens = 0;       // given out; only the last is valid
  std::string identity; // the last body that Keystone got
  std::string catalog_region = "north";

private:
  WebReply answer(const WebRequest &request) {
    if (fault_)
      if (std::optional<WebReply> reply = fault_(request)) return *reply;
    const std::string path = object::percent_decode(request.path());
    if (path == "/auth") return v1(request);
    if (path == "/identity/v3/auth/tokens") return keystone(request);
    if (request.headers.at("x-auth-token") != "token" + std::to_string(tokens))
      return {401, "<html><h1>Unauthorized</h1></html>", {}};
    const std::string root = "/v1/me/";
    const std::string name = path.substr(root.size());
    if (name.find('/') == std::string::npos)
      return request.method == "PUT" ? WebReply{201, "", {}} : list(request, name);
    return object(request, name);
  }

  WebReply v1(const WebRequest &request) {
    if (request.headers.at("x-auth-key") != "verysecret") return {401, "no", {}};
    return {200,
            "",
            {"X-Auth-Token: token" + std::to_string(++tokens), "X-Storage-Url: " + server.url() + "/v1/me"}};
  }

  WebReply keystone(const WebRequest &request) {
    identity = request.body;
    if (request.body.find("verysecret") == std::string::npos) return {401, "{}", {}};
    const std::string url = server.url() + "/v1/me/";
    return {201,
            R"({"token":{"catalog":[{"type":"compute","endpoints":[]},{"type":"object-store","endpoints":[)"
            R"({"interface":"internal","region_id":"north","url":"http://127.0.0.1:1/"},)"
            R"({"interface":"public","region_id":")" +
                catalog_region + R"(","url":")" + url + R"("}]}]}})",
            {"X-Subject-Token: token" + std::to_string(++tokens)}};
  }

  WebReply list(const WebRequest &request, const std::string &container) const {
    const std::string prefix = object::percent_decode(request.query("prefix"));
    const std::string from = object::percent_decode(request.query("marker"));
    std::string body;
    std::size_t count = 0;
    for (const auto &[path, content] : objects) {
      if (path.compare(0, container.size() + 1, container + "/") != 0) continue;
      const std::string key = path.substr(container.size() + 1);
      if (key.compare(0, prefix.size(), prefix) != 0 || (!from.empty() && key <= from) || count++ >= page)
        continue;
      body += std::string(body.empty() ? "" : ",") + R"({"name":")" + key + R"(","bytes":)" +
              std::to_string(content.size()) + R"(,"hash":"x"})";
    }
    return {200, "[" + body + "]", {}};
  }

  Fault fault_;

public:
  WebServer server;
};

} // namespace tl::test
