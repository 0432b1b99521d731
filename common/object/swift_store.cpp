// OpenStack Swift: https://docs.openstack.org/api-ref/object-store/
#include "cli/log.h"
#include "object/credentials.h"
#include "object/http_store.h"
#include "json/document.h"

#include <cstdio>
#include <mutex>
#include <random>

namespace tl::object {

namespace {

constexpr const char *kSegments = "_segments"; // the container of parts, as python-swiftclient names it

/// A name that no other upload has.
std::string unique_name() {
  std::random_device random;
  char name[40];
  std::snprintf(name, sizeof name, "%08x%08x%08x", random(), random(), random());
  return name;
}

/// The words of a page of HTML.
std::string without_tags(const std::string &page) {
  std::string words;
  bool tag = false;
  for (const char c : page) {
    const bool space = tag || c == '<' || c == ' ' || c == '\n' || c == '\r';
    tag = (tag || c == '<') && c != '>';
    if (!space)
      words += c;
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  }
  if (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

class SwiftStore final : public HttpStore {
public:
  SwiftStore(Url url, const StoreOptions &options, SwiftSettings settings)
      : HttpStore(std::move(url), options, settings.ca_file), settings_(std::move(settings)) {}

  void remove(const std::string &key) const override {
    const std::vector<std::string> segments = segments_of(key);
    HttpStore::remove(key);
    remove_segments(segments);
  }

  void put(const std::string &key, std::string_view bytes, bool create) const override {
    const std::vector<std::string> replaced = create ? std::vector<std::string>() : segments_of(key);
    HttpStore::put(key, bytes, create);
    remove_segments(replaced);
  }

protected:
  Request request(const Call &call, Credentials &used) const override {
    return request(url_.bucket, call, used);
  }

  bool expired(const Response &response) const override { return response.status == 401; }

  bool renew(const Credentials &used) const override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (token_ == used)
      token_ = std::make_shared<const SwiftToken>(authenticate(http_, settings_, options_.retry));
    return true;
  }

  Refusal refusal(const Response &response) const override { return {"", without_tags(response.body)}; }

  std::string advice(const Response &response, const Refusal &) const override {
    if (response.status == 404) return "; check the container's name, and that it is in this account";
    if (response.status == 401 || response.status == 403) return "; check that the user may do this";
    if (response.status == 413 || response.status == 507) return "; the account's quota is used up";
    if (response.status == 412) return "; a key must be UTF-8";
    return "";
  }

  std::vector<std::string> secrets() const override {
    std::lock_guard<std::mutex> guard(mutex_);
    return {settings_.key, token_ ? token_->token : ""};
  }

  Page page(const std::string &prefix, const std::string &delimiter, const std::string &from) const override {
    Call call;
    call.query = {{"format", "json"}, {"limit", std::to_string(options_.page)}, {"prefix", prefix}};
    if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
    if (!from.empty()) call.query.emplace_back("marker", from);
    return parse_listing(succeed(call));
  }

  /// A static large object: segments in their own container, and a manifest that names them.
  void put_parts(const std::string &key, std::string_view bytes, bool create) const override {
    const std::string container = url_.bucket + kSegments, folder = key + "/" + unique_name() + "/";
    Call make;
    make.method = "PUT";
    succeed_in(container, make);
    json::Value manifest = json::Value::array();
    std::vector<std::string> names;
    try {
      for (std::size_t begin = 0; begin < bytes.size(); begin += options_.part) {
        char number[16];
        std::snprintf(number, sizeof number, "%08zu", names.size() + 1);
        Call call;
        call.method = "PUT";
        call.key = folder + number;
        call.body = bytes.substr(begin, options_.part);
        names.push_back(call.key);
        const Response response = succeed_in(container, call);
        manifest.push_back({{"path", "/" + container + "/" + call.key},
                            {"etag", bare_etag(response.header("etag"))},
                            {"size_bytes", call.body.size()}});
      }
      put_manifest(key, json::compact(manifest), bytes, create);
    } catch (...) {
      remove_segments(names);
      throw;
    }
  }

private:
  std::shared_ptr<const SwiftToken> token() const {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!token_) token_ = std::make_shared<const SwiftToken>(authenticate(http_, settings_, options_.retry));
    return token_;
  }

  Request request(const std::string &container, const Call &call, Credentials &used) const {
    const std::shared_ptr<const SwiftToken> token = this->token();
    used = token;
    Request request;
    request.method = call.method;
    const std::string query = query_string(call.query);
    request.url = token->storage_url + "/" + percent_encode(container) +
                  (call.key.empty() ? "" : "/" + percent_encode(call.key, true)) +
                  (query.empty() ? "" : "?" + query);
    request.headers = call.headers;
    request.headers.push_back("X-Auth-Token: " + token->token);
    request.body = call.body;
    return request;
  }

  /// In another container of the account.
  Response succeed_in(const std::string &container, const Call &call) const {
    return SwiftStore({url_.scheme, container, ""}, *this).succeed(call);
  }

  SwiftStore(Url url, const SwiftStore &sibling)
      : HttpStore(std::move(url), sibling.options_, sibling.settings_.ca_file), settings_(sibling.settings_),
        token_(sibling.token()) {}

  Page parse_listing(const Response &response) const {
    Page page;
    if (response.status == 204) return page; // an empty container
    const json::Value entries = json::parse(response.body, name(""));
    const auto refuse = [&] {
      throw ObjectError(ObjectError::Kind::failed, name("") +
                                                       ": the answer is no listing of Swift; check the "
                                                       "address of the server");
    };
    if (!entries.is_array()) refuse();
    for (const json::Value &entry : entries) {
      const auto text = [&](const char *field) {
        return entry.is_object() && entry.contains(field) && entry[field].is_string()
                   ? entry[field].get<std::string>()
                   : "";
      };
      const std::string subdir = text("subdir"), key = text("name");
      if (!subdir.empty()) {
        page.list.prefixes.push_back(page.next = subdir);
        continue;
      }
      if (key.empty() || !entry.contains("bytes") || !entry["bytes"].is_number_unsigned()) refuse();
      page.list.objects.push_back({key, entry["bytes"].get<std::uint64_t>(), text("hash")});
      page.next = key;
    }
    return page;
  }

  void put_manifest(const std::string &key, const std::string &manifest, std::string_view bytes,
                    bool create) const {
    Call call;
    call.method = "PUT";
    call.key = key;
    call.query = {{"multipart-manifest", "put"}};
    call.body = manifest;
    if (create) call.headers = {"If-None-Match: *"};
    const Response response = perform(call);
    if (response.success() || (create && response.attempts > 1 && holds(key, bytes))) return;
    fail(call, response);
  }

  /// The segments of a large object in its container of parts; none of any other object.
  std::vector<std::string> segments_of(const std::string &key) const {
    Call call;
    call.method = "HEAD";
    call.key = key;
    const Response head = perform(call);
    if (!head.success() || head.header("x-static-large-object").empty()) return {};
    call.method = "GET";
    call.query = {{"multipart-manifest", "get"}};
    const std::string prefix = "/" + url_.bucket + kSegments + "/";
    std::vector<std::string> names;
    for (const json::Value &entry : json::parse(succeed(call).body, name(key))) {
      const bool named = entry.is_object() && entry.contains("name") && entry["name"].is_string();
      const std::string path = named ? entry["name"].get<std::string>() : "";
      if (path.compare(0, prefix.size(), prefix) == 0) names.push_back(path.substr(prefix.size()));
    }
    return names;
  }

  void remove_segments(const std::vector<std::string> &names) const noexcept {
    try {
      if (names.empty()) return;
      const SwiftStore segments({url_.scheme, url_.bucket + kSegments, ""}, *this);
      for (const std::string &name : names) segments.HttpStore::remove(name);
    } catch (...) { // they take space, nothing else
    }
  }

  const SwiftSettings settings_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const SwiftToken> token_;
};

} // namespace

std::shared_ptr<const ObjectStore> open_swift(const Url &url, const StoreOptions &options) {
  return std::make_shared<SwiftStore>(url, options, load_swift_settings());
}

} // namespace tl::object
