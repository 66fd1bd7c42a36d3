// Base64 as JSON objects of Kubernetes carry bytes (RFC 4648, with padding).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heddle {

std::string base64_encode(std::string_view bytes);
// Nothing when the text is no base64.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace heddle
