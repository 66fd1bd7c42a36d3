// HTTP/1.1 requests from bytes, as they come. Internal to kube; hides Boost.Beast.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/http_server.h"

namespace heddle::kube {

class HttpParser {
 public:
  enum class State { kNeedMore, kComplete, kBad };

  explicit HttpParser(size_t max_body_bytes);
  ~HttpParser();
  HttpParser(HttpParser&&) noexcept;
  HttpParser& operator=(HttpParser&&) noexcept;

  // Takes bytes from the front of `input` and removes them; what belongs to the next request stays.
  State feed(std::string& input);
  // After kBad: the status to answer with (400, 413, 431).
  [[nodiscard]] int error_status() const;
  // The client waits for "100 Continue" before it sends the body. True once.
  [[nodiscard]] bool take_expect_continue();
  // After kComplete. Moves the body out. Errors: kInvalidArgument for a target that cannot be decoded.
  Result<HttpRequest> take_request();
  [[nodiscard]] bool keep_alive() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> state_;
};

// Status line, headers and body as sent.
std::string format_response(const HttpResponse& response, std::string_view method, std::string_view connection);

}  // namespace heddle::kube
