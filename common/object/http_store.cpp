#include "object/http_store.h"

#include "cli/log.h"
#include "object/download.h"

#include <algorithm>
#include <cstring>

namespace tl::object {

namespace {

constexpr std::size_t kMaxReason = 300;
constexpr std::size_t kShortestSecret = 4; // what is shorter is part of every word
constexpr int kMaxEmptyPages = 100;

HttpOptions with_ca(HttpOptions options, const std::string &ca_file) {
  if (options.ca_file.empty()) options.ca_file = ca_file;
  return options;
}

/// `code`: S3 calls some of these an error of the client.
bool may_pass(long status, const std::string &code) {
  for (const long passing : {408, 429, 500, 502, 503, 504})
    if (status == passing) return true;
  return code == "RequestTimeout" || code == "ConditionalRequestConflict" || code == "OperationAborted";
}

std::string without(std::string text, const std::vector<std::string> &secrets) {
  for (const std::string &secret : secrets)
    for (std::size_t at = 0;
         secret.size() >= kShortestSecret && (at = text.find(secret, at)) != std::string::npos; at += 3)
      text.replace(at, secret.size(), "***");
  return text;
}

ObjectError::Kind kind_of(const Call &call, const Response &response, const Refusal &refusal) {
  using Kind = ObjectError::Kind;
  const auto says = [&](const std::string &name) {
    return std::any_of(call.headers.begin(), call.headers.end(),
                       [&](const std::string &header) { return header.compare(0, name.size(), name) == 0; });
  };
  if (response.status == 404 && !call.key.empty() && refusal.code != "NoSuchBucket") return Kind::missing;
  if (response.status == 412 && says("If-None-Match:")) return Kind::exists;
  if ((response.status == 412 || response.status == 416) && says("If-Match:")) return Kind::changed;
  if (refusal.code == "InvalidObjectState") return Kind::unusable; // archived
  return Kind::failed;
}

const std::string &largest(const ObjectList &list) {
  static const std::string none;
  const std::string &object = list.objects.empty() ? none : list.objects.back().key;
  const std::string &prefix = list.prefixes.empty() ? none : list.prefixes.back();
  return std::max(object, prefix);
}

} // namespace

std::string bare_etag(const std::string &etag) {
  const std::size_t open = etag.find('"'), close = etag.rfind('"');
  return open == close ? etag : etag.substr(open + 1, close - open - 1);
}

HttpStore::HttpStore(Url url, const StoreOptions &options, const std::string &ca_file)
    : url_(std::move(url)), options_(options), http_(with_ca(options.http, ca_file)) {}

std::string HttpStore::name(const std::string &key) const {
  return cli::printable(bucket_name() + (key.empty() ? "" : "/" + key));
}

Response HttpStore::perform(const Call &call, Receiver *receiver) const {
  Retry retry(options_.retry);
  int attempts = 1;
  for (bool renewed = false;;) {
    Call current = call;
    if (receiver)
      for (std::string &header : receiver->headers()) current.headers.push_back(std::move(header));
    Credentials used;
    Response response = http_.exchange(request(current, used), receiver);
    response.attempts = attempts;
    if (response.failure.empty()) {
      if (!renewed && expired(response) && renew(used)) {
        renewed = true;
        continue;
      }
      if (response.success() || !may_pass(response.status, refusal(response).code)) return response;
    } else if (!response.transient) {
      return response;
    }
    if (receiver && receiver->progressed()) retry = Retry(options_.retry);
    if (!retry.wait(response.retry_after)) return response;
    ++attempts;
  }
}

Response HttpStore::succeed(const Call &call) const {
  Response response = perform(call);
  if (!response.success()) fail(call, response);
  return response;
}

void HttpStore::fail(const Call &call, const Response &response) const {
  const std::string place = name(call.key) + ": ";
  const std::string tries =
      response.attempts > 1 ? " (" + std::to_string(response.attempts) + " attempts)" : "";
  if (!response.failure.empty())
    throw ObjectError(ObjectError::Kind::failed,
                      place + response.failure + tries + "; check the network and the address of the server");
  Refusal reason = refusal(response);
  reason.message = without(reason.message, secrets());
  if (reason.message.size() > kMaxReason) reason.message = reason.message.substr(0, kMaxReason) + "...";
  std::string text = "HTTP " + std::to_string(response.status);
  if (!reason.code.empty()) text += " " + without(reason.code, secrets()).substr(0, kMaxReason);
  if (!reason.message.empty()) text += ": " + reason.message;
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  const ObjectError::Kind kind = kind_of(call, response, reason);
  const std::string todo = kind == ObjectError::Kind::exists    ? "; another process has written it"
                           : kind == ObjectError::Kind::changed ? "; it was replaced while it was read"
                                                                : advice(response, reason);
  throw ObjectError(kind, place + cli::printable(text) + tries + todo);
}

ObjectList HttpStore::list(const std::string &prefix, const std::string &delimiter) const {
  ObjectList all;
  int empty = 0;
  for (std::string from;;) {
    check_interrupt();
    Page part = page(prefix, delimiter, from);
    ObjectList &list = part.list;
    const bool outside = std::any_of(list.objects.begin(), list.objects.end(), [&](const ObjectInfo &object) {
      return object.key.compare(0, prefix.size(), prefix) != 0;
    });
    const std::string last = largest(all), now = largest(list);
    empty = now.empty() ? empty + 1 : 0;
    if (outside || (!now.empty() && now <= last) || empty > kMaxEmptyPages ||
        (!part.next.empty() && part.next == from))
      throw ObjectError(ObjectError::Kind::failed,
                        name(prefix) + ": the server's listing makes no sense: it repeats itself or names "
                                       "other keys than were asked for");
    std::move(list.objects.begin(), list.objects.end(), std::back_inserter(all.objects));
    std::move(list.prefixes.begin(), list.prefixes.end(), std::back_inserter(all.prefixes));
    if (part.next.empty()) return all;
    from = std::move(part.next);
  }
}

Content HttpStore::get(const std::string &key, const GetOptions &options) const {
  Call call;
  call.key = key;
  if (options.range.length && *options.range.length == 0)
    throw Error(name(key) + ": no bytes were asked for");
  Download download(name(key), options);
  for (;;) {
    const std::uint64_t before = download.done();
    const Response response = perform(call, &download);
    if (!response.success()) {
      call.headers = download.headers(); // which tell what a refusal is about
      fail(call, response);
    }
    if (download.complete()) return download.take();
    // Whole answers that are shorter than they say they are.
    if (download.done() == before)
      throw ObjectError(ObjectError::Kind::failed, name(key) + ": the server does not send all of it");
  }
}

std::optional<ObjectInfo> HttpStore::head(const std::string &key) const {
  Call call;
  call.method = "HEAD";
  call.key = key;
  const Response response = perform(call);
  if (response.failure.empty() && response.status == 404) return std::nullopt;
  if (!response.success()) fail(call, response);
  const std::string &length = response.header("content-length");
  if (length.empty() || length.size() > 18 || length.find_first_not_of("0123456789") != std::string::npos)
    throw ObjectError(ObjectError::Kind::failed, name(key) + ": the server does not say how long it is");
  return ObjectInfo{key, std::stoull(length), bare_etag(response.header("etag"))};
}

bool HttpStore::holds(const std::string &key, std::string_view bytes) const {
  try {
    GetOptions options;
    options.limit = bytes.size();
    const Content content = get(key, options);
    return content.size == bytes.size() && std::memcmp(content.data.get(), bytes.data(), bytes.size()) == 0;
  } catch (const ObjectError &) {
    return false;
  }
}

void HttpStore::put(const std::string &key, std::string_view bytes, bool create) const {
  // For stores that take no notice of If-None-Match; the others let no writer slip in between.
  if (create && head(key))
    throw ObjectError(ObjectError::Kind::exists,
                      name(key) + ": is there already; another process has written it");
  if (bytes.size() > options_.part) return put_parts(key, bytes, create);
  Call call;
  call.method = "PUT";
  call.key = key;
  call.body = bytes;
  call.headers = {"Content-Type: application/octet-stream"};
  if (create) call.headers.push_back("If-None-Match: *");
  Response response = perform(call);
  if (create && response.failure.empty() && response.status == 501) { // a server without conditional writes
    call.headers.pop_back();
    response = perform(call);
  }
  if (response.success()) return;
  if (create && response.status == 412 && response.attempts > 1 && holds(key, bytes)) return;
  fail(call, response);
}

void HttpStore::remove(const std::string &key) const {
  Call call;
  call.method = "DELETE";
  call.key = key;
  const Response response = perform(call);
  const bool gone = response.failure.empty() && response.status == 404;
  if (!response.success() && !gone) fail(call, response);
}

std::shared_ptr<const ObjectStore> open_store(const Url &url, const StoreOptions &options) {
  return url.scheme == "s3" ? open_s3(url, options) : open_swift(url, options);
}

} // namespace tl::object
