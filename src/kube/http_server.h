// A small HTTP/1.1 server, with or without TLS: webhook, metrics, health, dashboard and the standalone API.
//
// Thread rule: the handler runs on one of `threads` worker threads, many at once. Keep-alive is honoured; headers are
// limited to 64 KiB (431 beyond) and bodies to max_body_bytes (413 beyond). stop() and the destructor wait for running
// handlers and give their answers a moment to leave. Only a handler occupies a worker: idle and slow clients wait in
// the poller, until their time-out. A handler that throws gives 500.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"

namespace heddle::kube {

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // decoded, without the query
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string peer;       // "127.0.0.1:5000", or "unix"
  int64_t peer_uid = -1;  // unix sockets only
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;        // 0: any free port, see port()
  std::string unix_socket;  // instead of address and port when not empty
  int threads = 4;
  size_t max_body_bytes = size_t{8} << 20;
  size_t max_connections = 1024;  // more are closed at once
  mode_t unix_mode = 0600;        // of the socket file
  Duration request_timeout =
      Duration::seconds(15);  // from the first byte (or the start of TLS) to the last of the request
  Duration write_timeout = Duration::seconds(15);  // for the whole answer
  Duration idle_timeout = Duration::seconds(90);   // between requests
  // TLS when not empty: PEM texts. set_certificate() swaps them while running.
  std::string certificate_pem;
  std::string key_pem;
};

class HttpServer {
 public:
  // Errors: kInvalidArgument (address, certificate), kAlreadyExists or kPermissionDenied (port or socket cannot be
  // taken).
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, HttpHandler handler, const Logger& log);
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual uint16_t port() const = 0;
  // New connections use the new pair. Errors: kInvalidArgument when they do not fit together.
  virtual Result<void> set_certificate(const std::string& certificate_pem, const std::string& key_pem) = 0;
  virtual void stop() = 0;
};

}  // namespace heddle::kube
