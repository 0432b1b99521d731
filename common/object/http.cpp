#include "object/http.h"

#include "cli/error.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <curl/curl.h>
#include <exception>
#include <mutex>

namespace tl::object {

namespace {

constexpr std::size_t kErrorBody = std::size_t{64} << 10;
constexpr std::size_t kMaxHeaders = 256;

struct HeaderList {
  curl_slist *list = nullptr;
  HeaderList() = default;
  HeaderList(const HeaderList &) = delete;
  HeaderList &operator=(const HeaderList &) = delete;
  ~HeaderList() { curl_slist_free_all(list); }
  void add(const std::string &line) {
    if (line.find_first_of("\r\n") != std::string::npos)
      throw UsageError("a credential or name for the header " + line.substr(0, line.find(':')) +
                       " holds a line end");
    curl_slist *longer = curl_slist_append(list, line.c_str());
    if (!longer) throw std::bad_alloc();
    list = longer;
  }
};

/// One exchange as libcurl's callbacks see it. They are called by C: no exception may pass.
struct Exchange {
  CURL *curl;
  const Request &request;
  Receiver *receiver;
  std::size_t body_limit;
  Response response;
  std::size_t sent = 0;
  bool began = false;
  std::exception_ptr error;

  template <class Action> bool guarded(const Action &action) noexcept {
    try {
      action();
      return true;
    } catch (...) {
      error = std::current_exception();
      return false;
    }
  }

  bool to_receiver() const { return receiver && response.status >= 200 && response.status < 300; }

  void begin() {
    if (began || response.status < 200) return;
    began = true;
    if (to_receiver()) receiver->begin(response);
  }

  void header(std::string line) {
    if (line.compare(0, 5, "HTTP/") == 0) { // a new answer after 100 Continue, or another's
      response.headers.clear();
      response.body.clear();
      curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
      return;
    }
    if (line == "\r\n" || line == "\n") return begin(); // before a body that may never come
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || response.headers.size() >= kMaxHeaders) return;
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    const std::size_t last = line.find_last_not_of(" \t\r\n");
    response.headers[name] =
        first == std::string::npos || last < first ? "" : line.substr(first, last - first + 1);
  }

  void body(const char *data, std::size_t size) {
    begin();
    if (to_receiver()) return receiver->receive(data, size);
    const bool success = response.status >= 200 && response.status < 300;
    if (!success) {
      response.body.append(data, std::min(size, kErrorBody - std::min(kErrorBody, response.body.size())));
    } else {
      if (response.body.size() + size > body_limit)
        throw FormatError("the server's answer has more than " + std::to_string(body_limit) + " bytes");
      response.body.append(data, size);
    }
  }
};

std::size_t on_header(char *data, std::size_t, std::size_t size, void *context) {
  auto &exchange = *static_cast<Exchange *>(context);
  return exchange.guarded([&] { exchange.header({data, size}); }) ? size : 0;
}

std::size_t on_body(char *data, std::size_t, std::size_t size, void *context) {
  auto &exchange = *static_cast<Exchange *>(context);
  return exchange.guarded([&] { exchange.body(data, size); }) ? size : size + 1;
}

std::size_t on_send(char *buffer, std::size_t, std::size_t size, void *context) {
  auto &exchange = *static_cast<Exchange *>(context);
  const std::size_t part = std::min(size, exchange.request.body.size() - exchange.sent);
  std::memcpy(buffer, exchange.request.body.data() + exchange.sent, part);
  exchange.sent += part;
  return part;
}

int on_seek(void *context, curl_off_t offset, int origin) {
  auto &exchange = *static_cast<Exchange *>(context);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::size_t>(offset) > exchange.request.body.size())
    return CURL_SEEKFUNC_CANTSEEK;
  exchange.sent = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int on_progress(void *context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto &exchange = *static_cast<Exchange *>(context);
  return exchange.guarded([] { check_interrupt(); }) ? 0 : 1;
}

/// What another attempt may cure. A certificate that is not trusted is not among it.
bool may_pass(CURLcode code) {
  switch (code) {
  case CURLE_COULDNT_RESOLVE_PROXY:
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_CONNECT:
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_HTTP2:
  case CURLE_HTTP2_STREAM:
  case CURLE_PARTIAL_FILE:
  case CURLE_OPERATION_TIMEDOUT:
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_GOT_NOTHING:
  case CURLE_SEND_ERROR:
  case CURLE_RECV_ERROR:
  case CURLE_SEND_FAIL_REWIND:
    return true;
  default:
    return false;
  }
}

void set_up(Exchange &exchange, const HttpOptions &options, HeaderList &headers) {
  CURL *curl = exchange.curl;
  const Request &request = exchange.request;
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(curl, option, value);
    if (code != CURLE_OK) throw Error(std::string("libcurl: ") + curl_easy_strerror(code));
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PATH_AS_IS, 1L); // "." and ".." may be parts of a key
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stalled_timeout.count()));
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &exchange);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, &exchange);
  if (request.method == "HEAD") set(CURLOPT_NOBODY, 1L);
  const bool sends = request.method == "PUT" || request.method == "POST";
  if (sends) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_READFUNCTION, on_send);
    set(CURLOPT_READDATA, &exchange);
    set(CURLOPT_SEEKFUNCTION, on_seek);
    set(CURLOPT_SEEKDATA, &exchange);
  }
  if (request.method != "HEAD" && request.method != "GET") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.signing) {
    set(CURLOPT_AWS_SIGV4, ("aws:amz:" + request.signing->region + ":s3").c_str());
    set(CURLOPT_USERNAME, request.signing->key.c_str());
    set(CURLOPT_PASSWORD, request.signing->secret.c_str());
    // The body is not hashed for the signature: it would have to be read twice.
    headers.add("x-amz-content-sha256: UNSIGNED-PAYLOAD");
  }
  for (const std::string &line : request.headers) headers.add(line);
  set(CURLOPT_HTTPHEADER, headers.list);
}

} // namespace

const std::string &Response::header(const std::string &name) const {
  static const std::string none;
  const auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

struct HttpClient::State {
  HttpOptions options;
  std::mutex mutex;
  std::vector<CURL *> idle; // with their connections

  CURL *take() {
    {
      std::lock_guard<std::mutex> guard(mutex);
      if (!idle.empty()) {
        CURL *curl = idle.back();
        idle.pop_back();
        return curl;
      }
    }
    CURL *curl = curl_easy_init();
    if (!curl) throw Error("libcurl cannot be started");
    return curl;
  }

  void give_back(CURL *curl) {
    curl_easy_reset(curl); // forgets the request and its credentials; keeps the connection
    std::lock_guard<std::mutex> guard(mutex);
    idle.push_back(curl);
  }
};

HttpClient::HttpClient(HttpOptions options) : state_(std::make_unique<State>()) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw Error("libcurl cannot be started");
  state_->options = std::move(options);
}

HttpClient::~HttpClient() {
  for (CURL *curl : state_->idle) curl_easy_cleanup(curl);
}

Response HttpClient::exchange(const Request &request, Receiver *receiver) const {
  check_interrupt();
  State &state = *state_;
  const auto give_back = [&state](CURL *curl) { state.give_back(curl); };
  const std::unique_ptr<CURL, decltype(give_back)> curl(state.take(), give_back);
  Exchange exchange{curl.get(), request, receiver, state.options.body_limit, {}, 0, false, nullptr};
  HeaderList headers;
  set_up(exchange, state.options, headers);
  const CURLcode code = curl_easy_perform(curl.get());
  if (exchange.error) std::rethrow_exception(exchange.error);
  Response &response = exchange.response;
  if (code == CURLE_OK) {
    curl_off_t seconds = 0;
    if (curl_easy_getinfo(curl.get(), CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK)
      response.retry_after = static_cast<double>(seconds);
  } else {
    response.failure = curl_easy_strerror(code);
    response.transient = may_pass(code);
  }
  return std::move(response);
}

} // namespace tl::object
