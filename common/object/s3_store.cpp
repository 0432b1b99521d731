// Amazon S3 and what speaks its language: https://docs.aws.amazon.com/AmazonS3/latest/API/
#include "cli/log.h"
#include "object/credentials.h"
#include "object/http_store.h"
#include "object/s3_documents.h"

#include <algorithm>
#include <mutex>

namespace tl::object {

namespace {

class S3Store final : public HttpStore {
public:
  S3Store(Url url, const StoreOptions &options, AwsSettings settings)
      : HttpStore(std::move(url), options, settings.ca_file), endpoint_(make_endpoint(settings)),
        settings_(std::make_shared<const AwsSettings>(std::move(settings))) {}

protected:
  Request request(const Call &call, Credentials &used) const override {
    const std::shared_ptr<const AwsSettings> settings = current();
    used = settings;
    Request request;
    request.method = call.method;
    const std::string query = query_string(call.query);
    request.url = endpoint_ + percent_encode(call.key, true) + (query.empty() ? "" : "?" + query);
    request.headers = call.headers;
    if (!settings->token.empty()) request.headers.push_back("x-amz-security-token: " + settings->token);
    request.body = call.body;
    request.signing = Signing{settings->region, settings->key, settings->secret};
    return request;
  }

  bool expired(const Response &response) const override {
    return response.status == 401 || response.status == 403 ||
           (response.status == 400 && refusal(response).code == "ExpiredToken");
  }

  bool renew(const Credentials &used) const override {
    std::lock_guard<std::mutex> guard(mutex_);
    if (settings_ != used) return true; // another thread was faster
    auto fresh = std::make_shared<const AwsSettings>(load_aws_settings());
    if (fresh->key == settings_->key && fresh->secret == settings_->secret &&
        fresh->token == settings_->token)
      return false;
    settings_ = fresh;
    return true;
  }

  Refusal refusal(const Response &response) const override { return parse_s3_error(response.body); }

  std::string advice(const Response &response, const Refusal &refusal) const override {
    const std::string &code = refusal.code, origin = current()->origin;
    const std::string &region = response.header("x-amz-bucket-region");
    if (!region.empty() && region != current()->region)
      return "; the bucket is in the region " + cli::printable(region) + ": set AWS_REGION";
    if (code == "NoSuchBucket") return "; check the bucket's name and AWS_ENDPOINT_URL";
    if (code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidToken")
      return "; the credentials (" + origin + ") are no longer valid: renew them";
    if (code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch")
      return "; check the credentials (" + origin + "): access key, secret key and region";
    if (code == "RequestTimeTooSkewed") return "; set this machine's clock";
    if (code == "InvalidObjectState") return "; it is archived: restore it first";
    if (response.status == 403 || response.status == 401)
      return "; check that the credentials (" + origin + ") are right and may do this";
    if (response.status >= 300 && response.status < 400) return "; check AWS_REGION and AWS_ENDPOINT_URL";
    return "";
  }

  std::vector<std::string> secrets() const override {
    const std::shared_ptr<const AwsSettings> settings = current();
    return {settings->secret, settings->token, settings->key};
  }

  Page page(const std::string &prefix, const std::string &delimiter, const std::string &from) const override {
    Call call;
    call.query = {{"list-type", "2"},
                  {"encoding-type", "url"},
                  {"max-keys", std::to_string(options_.page)},
                  {"prefix", prefix}};
    if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
    if (!from.empty()) call.query.emplace_back("continuation-token", from);
    return parse_s3_listing(succeed(call).body, name(""));
  }

  void put_parts(const std::string &key, std::string_view bytes, bool create) const override {
    Call start;
    start.method = "POST";
    start.key = key;
    start.query = {{"uploads", ""}};
    start.headers = {"Content-Type: application/octet-stream"};
    const std::string upload = parse_s3_upload(succeed(start).body, name(key));
    try {
      std::vector<std::string> tags;
      for (std::size_t begin = 0; begin < bytes.size(); begin += options_.part)
        tags.push_back(put_part(key, upload, tags.size() + 1, bytes.substr(begin, options_.part)));
      complete(key, upload, s3_parts(tags), bytes, create);
    } catch (...) {
      abandon(key, upload);
      throw;
    }
  }

private:
  std::shared_ptr<const AwsSettings> current() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return settings_;
  }

  /// Everything before the key, "https://bucket.s3.eu-north-1.amazonaws.com/".
  std::string make_endpoint(const AwsSettings &settings) const {
    const std::string &region = settings.region;
    if (!std::all_of(region.begin(), region.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-'; }))
      throw UsageError("the region of S3, '" + cli::printable(region) + "', is none; set AWS_REGION");
    std::string endpoint = settings.endpoint;
    if (endpoint.empty())
      endpoint = "https://s3." + region + ".amazonaws.com" + (region.compare(0, 3, "cn-") == 0 ? ".cn" : "");
    const std::string &bucket = url_.bucket;
    // A wildcard certificate covers no name with a dot, and a host's name has no capitals.
    const bool can_be_host =
        bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    const bool by_host =
        settings.addressing == Addressing::virtual_host ||
        (settings.addressing == Addressing::automatic && settings.endpoint.empty() && can_be_host);
    if (!by_host) return endpoint + "/" + bucket + "/";
    const std::size_t host = endpoint.find("://") + 3;
    return endpoint.substr(0, host) + bucket + "." + endpoint.substr(host) + "/";
  }

  std::string put_part(const std::string &key, const std::string &upload, std::size_t number,
                       std::string_view bytes) const {
    Call call;
    call.method = "PUT";
    call.key = key;
    call.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload}};
    call.body = bytes;
    return bare_etag(succeed(call).header("etag"));
  }

  void complete(const std::string &key, const std::string &upload, const std::string &parts,
                std::string_view bytes, bool create) const {
    Call call;
    call.method = "POST";
    call.key = key;
    call.query = {{"uploadId", upload}};
    call.headers = {"Content-Type: application/xml"};
    if (create) call.headers.push_back("If-None-Match: *");
    call.body = parts;
    Response response = perform(call);
    // S3 answers 200 before it knows whether it will work.
    const bool refused = response.success() && !refusal(response).code.empty();
    if (response.success() && !refused) return;
    if (response.attempts > 1 && holds(key, bytes)) return;
    fail(call, response);
  }

  void abandon(const std::string &key, const std::string &upload) const noexcept {
    try {
      Call call;
      call.method = "DELETE";
      call.key = key;
      call.query = {{"uploadId", upload}};
      perform(call);
    } catch (...) { // the parts stay until the bucket's own rule removes them; the first error counts
    }
  }

  const std::string endpoint_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const AwsSettings> settings_;
};

} // namespace

std::shared_ptr<const ObjectStore> open_s3(const Url &url, const StoreOptions &options) {
  return std::make_shared<S3Store>(url, options, load_aws_settings());
}

} // namespace tl::object
