// A web server on loopback inside a test: each request is answered by a function of the test, byte by byte
// if it likes, so that every way in which servers and networks go wrong can be had on purpose.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tl::test {

struct WebRequest {
  std::string method, target;                 // target: path and query as they were sent
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;

  std::string path() const { return target.substr(0, target.find('?')); }
  /// The value of a parameter as it was sent; "" when there is none.
  std::string query(const std::string &name) const {
    const std::string text =
        "&" + (target.find('?') == std::string::npos ? "" : target.substr(target.find('?') + 1));
    const std::size_t at = text.find("&" + name + "=");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 2;
    return text.substr(begin, text.find('&', begin) - begin);
  }
};

struct WebReply {
  int status = 200;
  std::string body;
  std::vector<std::string> headers;
  std::size_t send = std::string::npos; // bytes of the body that are sent before the connection is cut
  bool drop = false;                    // no answer at all: the connection is cut
};

class WebServer {
public:
  using Handler = std::function<WebReply(const WebRequest &)>;

  explicit WebServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr *>(&address), size) != 0 ||
        listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr *>(&address), &size) != 0)
      throw std::runtime_error("no socket");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~WebServer() {
    stop_ = true;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    for (std::thread &thread : threads_) thread.join();
  }
  WebServer(const WebServer &) = delete;
  WebServer &operator=(const WebServer &) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string port() const { return std::to_string(port_); }
  int connections() const { return connections_; }
  /// Requests so far, in the order of their arrival.
  std::vector<WebRequest> requests() const {
    std::lock_guard<std::mutex> guard(mutex_);
    return requests_;
  }

private:
  void accept_all() {
    while (!stop_) {
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      ++connections_;
      threads_.emplace_back([this, connection] {
        serve(connection);
        close(connection);
      });
    }
  }

  void serve(int connection) {
    std::string buffer;
    WebRequest request;
    while (receive(connection, buffer, request)) {
      WebReply reply;
      {
        std::lock_guard<std::mutex> guard(mutex_);
        requests_.push_back(request);
        reply = handler_(request);
      }
      if (reply.drop || !answer(connection, request, reply)) return;
    }
  }

  /// Waits for more bytes; false when there will be none.
  bool fill(int connection, std::string &buffer) {
    pollfd wait{connection, POLLIN, 0};
    while (!stop_)
      if (poll(&wait, 1, 20) > 0) {
        char bytes[65536];
        const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
        if (got <= 0) return false;
        buffer.append(bytes, static_cast<std::size_t>(got));
        return true;
      }
    return false;
  }

  bool receive(int connection, std::string &buffer, WebRequest &request) {
    std::size_t end;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
      if (!fill(connection, buffer)) return false;
    request = {};
    const std::string head = buffer.substr(0, end + 2);
    buffer.erase(0, end + 4);
    request.method = head.substr(0, head.find(' '));
    const std::size_t target = request.method.size() + 1;
    request.target = head.substr(target, head.find(' ', target) - target);
    for (std::size_t line = head.find("\r\n") + 2; line < head.size();) {
      const std::size_t stop = head.find("\r\n", line), colon = head.find(':', line);
      std::string name = head.substr(line, colon - line);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const std::size_t value = head.find_first_not_of(' ', colon + 1);
      request.headers[name] = head.substr(value, stop - value);
      line = stop + 2;
    }
    if (request.headers["expect"] == "100-continue") put(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    const std::size_t length = std::strtoul(request.headers["content-length"].c_str(), nullptr, 10);
    while (buffer.size() < length)
      if (!fill(connection, buffer)) return false;
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
    return true;
  }

  static bool put(int connection, const std::string &bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t sent = send(connection, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += static_cast<std::size_t>(sent);
    }
    return true;
  }

  static bool answer(int connection, const WebRequest &request, const WebReply &reply) {
    std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
    bool sized = false;
    for (const std::string &header : reply.headers) {
      text += header + "\r\n";
      sized = sized || header.compare(0, 15, "Content-Length:") == 0;
    }
    if (!sized) text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    text += "\r\n";
    if (request.method != "HEAD") text += reply.body.substr(0, reply.send);
    return put(connection, text) && reply.send >= reply.body.size();
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;
  std::vector<WebRequest> requests_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

} // namespace tl::test
