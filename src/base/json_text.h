// A string as JSON text: for programs that write JSON without a JSON library. Any bytes give valid JSON.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

// Appends text in quotes, escaped. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& json, std::string_view text);

}  // namespace heddle
