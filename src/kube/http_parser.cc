#include "kube/http_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <utility>

namespace heddle::kube {
namespace {

namespace http = boost::beast::http;

constexpr uint32_t kMaxHeaderBytes = 64 << 10;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

enum class Plus { kIsPlus, kIsSpace };

std::optional<std::string> url_decode(std::string_view text, Plus plus) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus == Plus::kIsSpace) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0 || high * 16 + low == 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

Result<void> read_target(std::string_view target, HttpRequest& request) {
  const auto bad = [] { return fail(Code::kInvalidArgument, "the request's target cannot be decoded"); };
  const size_t question = target.find('?');
  auto path = url_decode(target.substr(0, question), Plus::kIsPlus);
  if (!path || !path->starts_with('/')) return bad();
  request.path = std::move(*path);
  if (question == std::string_view::npos) return {};
  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = url_decode(pair.substr(0, equals), Plus::kIsSpace);
    auto value = equals == std::string_view::npos ? std::optional<std::string>("")
                                                  : url_decode(pair.substr(equals + 1), Plus::kIsSpace);
    if (!name || !value) return bad();
    request.query[std::move(*name)] = std::move(*value);
  }
  return {};
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

bool has_control_bytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

}  // namespace

struct HttpParser::Parts {
  http::request_parser<http::string_body> parser;
  int error_status = 400;
  bool continue_sent = false;
};

HttpParser::HttpParser(size_t max_body_bytes) : state_(std::make_unique<Parts>()) {
  state_->parser.header_limit(kMaxHeaderBytes);
  state_->parser.body_limit(max_body_bytes);
  state_->parser.eager(true);
}
HttpParser::~HttpParser() = default;
HttpParser::HttpParser(HttpParser&&) noexcept = default;
HttpParser& HttpParser::operator=(HttpParser&&) noexcept = default;

HttpParser::State HttpParser::feed(std::string& input) {
  auto& parser = state_->parser;
  size_t used = 0;
  while (used < input.size() && !parser.is_done()) {
    boost::beast::error_code error;
    const size_t taken = parser.put(boost::asio::buffer(input.data() + used, input.size() - used), error);
    used += taken;
    if (error == http::error::need_more) break;
    if (error) {
      if (error == http::error::body_limit) state_->error_status = 413;
      if (error == http::error::header_limit) state_->error_status = 431;
      return State::kBad;
    }
    if (taken == 0) break;
  }
  input.erase(0, used);
  return parser.is_done() ? State::kComplete : State::kNeedMore;
}

int HttpParser::error_status() const {
  return state_->error_status;
}

bool HttpParser::take_expect_continue() {
  if (state_->continue_sent || !state_->parser.is_header_done()) return false;
  const auto expect = state_->parser.get()[http::field::expect];
  if (lower(std::string_view(expect.data(), expect.size())) != "100-continue") return false;
  return state_->continue_sent = true;
}

bool HttpParser::keep_alive() const {
  return state_->parser.get().keep_alive();
}

Result<HttpRequest> HttpParser::take_request() {
  auto& message = state_->parser.get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  const auto target = message.target();
  HEDDLE_CHECK_OK(read_target(std::string_view(target.data(), target.size()), request));
  for (const auto& field : message) {
    const auto name = field.name_string();
    const auto value = field.value();
    std::string& slot = request.headers[lower(std::string_view(name.data(), name.size()))];
    if (!slot.empty()) slot += ", ";
    slot.append(value.data(), value.size());
  }
  request.body = std::move(message.body());
  return request;
}

std::string format_response(const HttpResponse& response, std::string_view method, std::string_view connection) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  const bool no_body = response.status == 204 || response.status == 304 || response.status < 200;
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + " ";
  out.append(reason.data(), reason.size());
  out += "\r\nConnection: ";
  out += connection;
  if (!no_body) {
    out += "\r\nContent-Length: " + std::to_string(response.body.size());
    if (!response.content_type.empty() && !has_control_bytes(response.content_type)) {
      out += "\r\nContent-Type: " + response.content_type;
    }
  }
  for (const auto& [name, value] : response.headers) {
    // A line end inside would let a caller's text forge headers.
    if (has_control_bytes(name) || has_control_bytes(value)) continue;
    out += "\r\n" + name + ": " + value;
  }
  out += "\r\n\r\n";
  if (!no_body && method != "HEAD") out += response.body;
  return out;
}

}  // namespace heddle::kube
