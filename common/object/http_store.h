// Private to common/object: what S3 and Swift have in common. A kind of store says how a request is made
// and what its answers mean; attempts, expired credentials, resumed reads, pages and errors are here.
#pragma once

#include "object/store.h"

#include <memory>
#include <string>
#include <vector>

namespace tl::object {

struct Call {
  std::string method = "GET";
  std::string key; // "" for the bucket itself
  Query query;
  std::vector<std::string> headers;
  std::string_view body;
};

/// Why a server refused, in its own words.
struct Refusal {
  std::string code, message;
};

/// A page of a listing, and where the next begins.
struct Page {
  ObjectList list;
  std::string next; // "" after the last page
};

class HttpStore : public ObjectStore {
public:
  HttpStore(Url url, const StoreOptions &options, const std::string &ca_file);

  std::string name(const std::string &key) const override;
  ObjectList list(const std::string &prefix, const std::string &delimiter) const override;
  Content get(const std::string &key, const GetOptions &options) const override;
  std::optional<ObjectInfo> head(const std::string &key) const override;
  void put(const std::string &key, std::string_view bytes, bool create) const override;
  void remove(const std::string &key) const override;

protected:
  /// What a request was signed with; compared by address.
  using Credentials = std::shared_ptr<const void>;

  virtual Request request(const Call &call, Credentials &used) const = 0;
  /// Gets other credentials than `used`; false when there are none.
  virtual bool renew(const Credentials &used) const = 0;
  /// The answer may mean that the credentials are no longer valid.
  virtual bool expired(const Response &response) const = 0;
  virtual Refusal refusal(const Response &response) const = 0;
  /// What the user can do: "; check ...", or "".
  virtual std::string advice(const Response &response, const Refusal &refusal) const = 0;
  /// Never to be seen in a message.
  virtual std::vector<std::string> secrets() const = 0;
  virtual Page page(const std::string &prefix, const std::string &delimiter,
                    const std::string &from) const = 0;
  virtual void put_parts(const std::string &key, std::string_view bytes, bool create) const = 0;

  /// The answer after as many attempts as it takes, whatever its status.
  Response perform(const Call &call, Receiver *receiver = nullptr) const;
  /// The same; throws unless the answer is a success.
  Response succeed(const Call &call) const;
  [[noreturn]] void fail(const Call &call, const Response &response) const;
  /// For a write whose first answer got lost: the object is there, with this content.
  bool holds(const std::string &key, std::string_view bytes) const;
  std::string bucket_name() const { return url_.scheme + "://" + url_.bucket; }

  const Url url_;
  const StoreOptions options_;
  const HttpClient http_;
};

/// Without quotes and the mark of a weak tag.
std::string bare_etag(const std::string &etag);

std::shared_ptr<const ObjectStore> open_s3(const Url &url, const StoreOptions &options);
std::shared_ptr<const ObjectStore> open_swift(const Url &url, const StoreOptions &options);

} // namespace tl::object
