#include "base/json_text.h"

#include <fmt/format.h>

#include <iterator>

#include "base/text.h"

namespace heddle {

void append_json_string(std::string& json, std::string_view text) {
  json.push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    size_t length = utf8_length(text);
    if (length == 0) {
      json += "\\ufffd";
      length = 1;
    } else if (c == '"' || c == '\\') {
      json.push_back('\\');
      json.push_back(c);
    } else if (c == '\n') {
      json += "\\n";
    } else if (c == '\t') {
      json += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(json), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      json.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  json.push_back('"');
}

}  // namespace heddle
