// The few shapes of the API's JSON that the client itself reads: lists, watch events and Status. Internal to kube.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle::kube {

struct ListPage {
  std::string resource_version;
  std::string continue_token;           // empty on the last page
  std::vector<std::string_view> items;  // raw JSON inside the body given
};

// The body may be given room at its end for the parser; its text is not changed. Errors: kInvalidArgument.
Result<ListPage> parse_list_page(std::string& body);

enum class EventType { kAdded, kModified, kDeleted, kBookmark, kError };

struct WatchEvent {
  EventType type = EventType::kError;
  std::string_view object;  // raw JSON inside the line given
  std::string resource_version;
};

// One line of a watch stream; `line` as above. Errors: kInvalidArgument.
Result<WatchEvent> parse_watch_event(std::string& line);

struct ApiStatus {
  int code = 0;
  std::string reason;
  std::string message;
};

// Nothing when the text is not a Status object.
std::optional<ApiStatus> parse_status(std::string_view text);

// What an answer outside 2xx means, as client.h says. what: "PATCH /api/v1/...", for the message.
Error error_of_answer(std::string_view what, int http_status, std::string_view body);

// Cuts a stream into lines on any chunk boundary.
class LineSplitter {
 public:
  explicit LineSplitter(size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}
  // Calls `line` for each complete line that is not empty, without its end; stops early when it answers kStop.
  // Errors: kExhausted for a line that is too long.
  enum class Next { kGoOn, kStop };
  Result<void> feed(std::string_view bytes, const std::function<Next(std::string&)>& line);

 private:
  size_t max_line_bytes_;
  std::string partial_;
};

}  // namespace heddle::kube
