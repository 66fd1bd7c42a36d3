#include "base/json.h"

#include <nlohmann/json.hpp>

namespace heddle {
namespace {

// Whether more than kMaxJsonDepth brackets are open somewhere outside strings. Of text that is no JSON it says nothing.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

template <class Json>
Json parse(std::string_view text) {
  if (too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

template <class Json>
std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  return parse<nlohmann::json>(text);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return parse<nlohmann::ordered_json>(text);
}

std::string dump_json(const nlohmann::json& value, int indent) {
  return dump(value, indent);
}

std::string dump_json(const nlohmann::ordered_json& value, int indent) {
  return dump(value, indent);
}

}  // namespace heddle
