#include "kube/wire.h"

#include <simdjson.h>

#include "base/text.h"

namespace heddle::kube {
namespace {

constexpr size_t kKeptLineBytes = size_t{256} << 10;

using simdjson::ondemand::document;
using simdjson::ondemand::object;
using simdjson::ondemand::parser;

// Room behind the text, as the parser reads in wide steps. capacity() grows, size() stays.
simdjson::padded_string_view padded(std::string& text) {
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  return simdjson::padded_string_view(text.data(), text.size(), text.capacity());
}

tl::unexpected<Error> malformed(const char* what, const simdjson::simdjson_error& error) {
  return fail(Code::kInvalidArgument, std::string("malformed ") + what + ": " + error.what());
}

std::string text_or_empty(simdjson::simdjson_result<simdjson::ondemand::value> value) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) return {};
  return std::string(text);
}

void read_items(document& doc, ListPage& page) {
  simdjson::ondemand::value items;
  const auto found = doc["items"].get(items);
  if (found == simdjson::NO_SUCH_FIELD) return;
  if (found != simdjson::SUCCESS) throw simdjson::simdjson_error(found);
  // Go writes an empty list as null in some versions.
  if (items.type() == simdjson::ondemand::json_type::null) return;
  for (auto item : items.get_array()) {
    object whole = item.get_object();
    page.items.push_back(whole.raw_json());
  }
}

Code code_of(int status, const std::string& reason) {
  switch (status) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return Code::kInvalidArgument;
    case 401:
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kNotFound;
    case 409:
      return reason == "AlreadyExists" ? Code::kAlreadyExists : Code::kConflict;
    case 410:
      return Code::kGone;
    // The server gave up waiting; what it had begun may still take effect.
    case 504:
      return Code::kDeadlineExceeded;
    default:
      break;
  }
  return status == 429 || status >= 500 ? Code::kUnavailable : Code::kInternal;
}

}  // namespace

Result<ListPage> parse_list_page(std::string& body) {
  try {
    parser reader;
    document doc = reader.iterate(padded(body));
    ListPage page;
    {
      object meta = doc["metadata"].get_object();
      page.resource_version = text_or_empty(meta["resourceVersion"]);
      page.continue_token = text_or_empty(meta["continue"]);
    }
    read_items(doc, page);
    if (page.resource_version.empty()) {
      return fail(Code::kInvalidArgument, "a list without a resourceVersion", "metadata.resourceVersion");
    }
    return page;
  } catch (const simdjson::simdjson_error& error) {
    return malformed("list", error);
  }
}

Result<WatchEvent> parse_watch_event(std::string& line) {
  try {
    parser reader;
    document doc = reader.iterate(padded(line));
    const std::string_view type = doc["type"];
    WatchEvent event;
    if (type == "ADDED") {
      event.type = EventType::kAdded;
    } else if (type == "MODIFIED") {
      event.type = EventType::kModified;
    } else if (type == "DELETED") {
      event.type = EventType::kDeleted;
    } else if (type == "BOOKMARK") {
      event.type = EventType::kBookmark;
    } else if (type != "ERROR") {
      return fail(Code::kInvalidArgument, "unknown type of watch event \"" + std::string(type) + "\"", "type");
    }
    object whole = doc["object"].get_object();
    event.object = whole.raw_json();
    if (event.type == EventType::kError) return event;
    whole.reset();
    object meta = whole["metadata"].get_object();
    event.resource_version = text_or_empty(meta["resourceVersion"]);
    if (event.resource_version.empty()) {
      return fail(Code::kInvalidArgument, "a watch event without a resourceVersion", "object.metadata.resourceVersion");
    }
    return event;
  } catch (const simdjson::simdjson_error& error) {
    return malformed("watch event", error);
  }
}

std::optional<ApiStatus> parse_status(std::string_view text) {
  try {
    const simdjson::padded_string copy(text);
    parser reader;
    document doc = reader.iterate(copy);
    if (text_or_empty(doc["kind"]) != "Status") return std::nullopt;
    ApiStatus status;
    int64_t code = 0;
    if (doc["code"].get_int64().get(code) == simdjson::SUCCESS) status.code = static_cast<int>(code);
    status.reason = text_or_empty(doc["reason"]);
    status.message = text_or_empty(doc["message"]);
    return status;
  } catch (const simdjson::simdjson_error&) {
    return std::nullopt;
  }
}

Error error_of_answer(std::string_view what, int http_status, std::string_view body) {
  const auto status = parse_status(body);
  Error error;
  error.code = code_of(http_status, status ? status->reason : std::string());
  if (status && !status->message.empty()) {
    error.message = status->message;
    return error;
  }
  constexpr size_t kMostText = 200;
  std::string text = cut_text(body, kMostText);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  error.message = std::string(what) + ": HTTP " + std::to_string(http_status);
  if (!text.empty()) error.message += ": " + text;
  return error;
}

Result<void> LineSplitter::feed(std::string_view bytes, const std::function<Next(std::string&)>& line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (partial_.size() + part.size() > max_line_bytes_) {
      partial_.clear();
      return fail(Code::kExhausted,
                  "a line of the stream is longer than " + std::to_string(max_line_bytes_) + " bytes");
    }
    partial_.append(part);
    if (end == std::string_view::npos) return {};
    bytes.remove_prefix(end + 1);
    if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
    if (partial_.empty()) continue;
    const Next next = line(partial_);
    partial_.clear();
    if (partial_.capacity() > kKeptLineBytes) partial_.shrink_to_fit();
    if (next == Next::kStop) return {};
  }
  return {};
}

}  // namespace heddle::kube
