// One HTTP exchange by libcurl, over connections that are used again. Retries are HttpStore's business.
//
// TLS certificates are always verified; a private authority's certificate is named by AWS_CA_BUNDLE or
// OS_CACERT. Redirects are not followed: what a request is signed with must not go to another host.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tl::object {

/// For Signature Version 4 of AWS, which libcurl computes.
struct Signing {
  std::string region, key, secret;
};

struct Request {
  std::string method = "GET";
  std::string url;                  // percent-encoded
  std::vector<std::string> headers; // "Name: value"
  std::string_view body;            // of PUT and POST; must stay alive
  std::optional<Signing> signing;
};

struct Response {
  long status = 0;                            // 0: no answer
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;                           // unless a Receiver took it; of an error at most 64 KiB
  std::string failure;                        // what libcurl says; "" when the whole answer arrived
  bool transient = false;                     // the failure may pass: connection lost, timeout, ...
  double retry_after = 0;                     // seconds, from the header Retry-After
  int attempts = 1;                           // that HttpStore made

  bool success() const { return failure.empty() && status >= 200 && status < 300; }
  const std::string &header(const std::string &name) const; // "" when there is none
};

/// Takes the body of a successful answer as it arrives. What it throws ends the exchange.
class Receiver {
public:
  virtual ~Receiver() = default;
  /// What the next request is to say besides: which part of which version is still missing.
  virtual std::vector<std::string> headers() const { return {}; }
  virtual void begin(const Response &response) = 0;
  virtual void receive(const char *data, std::size_t size) = 0;
  /// Asked after an exchange that failed: true if it brought so much that the next attempt is a first one.
  virtual bool progressed() { return false; }
};

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stalled_timeout{30};       // less than 1 byte a second for so long
  std::size_t body_limit = std::size_t{64} << 20; // of an answer without a Receiver
  std::string ca_file;                            // "": the system's
};

/// Thread-safe; holds one connection for each thread that is in exchange().
class HttpClient {
public:
  explicit HttpClient(HttpOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient &) = delete;
  HttpClient &operator=(const HttpClient &) = delete;

  /// What the network does wrong is in the response. Throws Interrupted, FormatError for an answer
  /// over the limit, and what the receiver throws.
  Response exchange(const Request &request, Receiver *receiver = nullptr) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tl::object
