// Objects of one bucket (S3) or container (OpenStack Swift): bytes under a key, which appear whole or not
// at all. A key is any bytes; '/' means nothing to the store.
//
// Every operation is tried again when it failed for a reason that may pass (connection lost, 408, 429,
// 5xx), within RetryPolicy. A read that was cut off continues where it was, of the same version of the
// object (If-Match). Credentials come from the environment or the usual files (credentials.h), are read
// again when the server calls them expired, and are never part of a message.
#pragma once

#include "cli/error.h"
#include "object/http.h"
#include "object/retry.h"
#include "object/url.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tl::object {

struct ObjectInfo {
  std::string key;
  std::uint64_t size = 0;
  std::string etag; // names the version: other content, other tag
};

struct ObjectList {
  std::vector<ObjectInfo> objects;   // in the store's order, bytewise by key
  std::vector<std::string> prefixes; // with a delimiter: what keys have in common up to it, it included
};

struct Range {
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length; // to the end
};

struct Content {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;
  std::uint64_t object_size = 0; // of which these bytes are a part
  std::string etag;
};

/// An operation failed for good. The message is one line: object, status, the server's reason, what to do.
class ObjectError : public Error {
public:
  enum class Kind {
    missing,  // no such object
    changed,  // another version of the object than the one that was asked for
    exists,   // put() was to create it
    unusable, // the object itself: larger than the limit, archived
    failed    // credentials, bucket, network, server
  };
  ObjectError(Kind kind, const std::string &message) : Error(message), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

private:
  Kind kind_;
};

struct GetOptions {
  Range range;
  std::string if_match;                          // an etag: any other version is Kind::changed
  std::uint64_t limit = std::uint64_t{16} << 30; // bytes; checked before anything is allocated
};

class ObjectStore {
public:
  virtual ~ObjectStore() = default;

  /// "s3://bucket/key", for messages.
  virtual std::string name(const std::string &key) const = 0;
  /// All keys that begin with `prefix`; with a delimiter, those that hold it further on are summed up.
  virtual ObjectList list(const std::string &prefix, const std::string &delimiter = "") const = 0;
  virtual Content get(const std::string &key, const GetOptions &options = {}) const = 0;
  /// Nothing when there is no such object.
  virtual std::optional<ObjectInfo> head(const std::string &key) const = 0;
  /// Replaces the object. `create`: only if there is none yet (Kind::exists); of several writers at once one
  /// succeeds where the store knows conditional writes (AWS, Swift's own interface). Above StoreOptions::part
  /// it is sent in parts and appears with the last.
  virtual void put(const std::string &key, std::string_view bytes, bool create = false) const = 0;
  /// That it is not there is no error.
  virtual void remove(const std::string &key) const = 0;
};

struct StoreOptions {
  RetryPolicy retry;
  HttpOptions http;
  std::size_t part = std::size_t{128} << 20; // of an object that is sent in parts; S3 wants 5 MiB or more
  std::size_t page = 1000;                   // keys asked for at a time
};

/// The bucket of `url`; whatever its key. All threads may use it at once. Reads the credentials, does not
/// talk to the server yet. Throws UsageError when there are none, Error for a configuration file that
/// cannot be understood.
std::shared_ptr<const ObjectStore> open_store(const Url &url, const StoreOptions &options = {});

} // namespace tl::object
