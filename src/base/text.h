// Text of others made fit to be passed on: bounded, and UTF-8. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

// The length of the UTF-8 sequence at the front of a text that is not empty; 0 if there is none.
size_t utf8_length(std::string_view text);

// At most `bytes` bytes from the front of text, never with half a UTF-8 character at the end.
std::string cut_text(std::string_view text, size_t bytes);

// The text with U+FFFD for each byte that is not UTF-8: protobuf and JSON take no other.
std::string valid_utf8(std::string_view text);

}  // namespace heddle
