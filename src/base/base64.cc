#include "base/base64.h"

#include <algorithm>
#include <cstdint>

namespace heddle {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  size_t to = 0;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = (group << 8U) | (j < here ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j <= here; ++j) out[to + j] = kDigits[(group >> (18U - 6U * j)) & 63U];
    to += 4;
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j) {
      const bool pad = i + j >= text.size() - padding;
      const size_t digit = pad ? 0 : kDigits.find(text[i + j]);
      if (digit == std::string_view::npos) return std::nullopt;
      group = (group << 6U) | static_cast<uint32_t>(digit);
    }
    for (size_t j = 0; j < 3; ++j) out += static_cast<char>((group >> (16U - 8U * j)) & 255U);
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace heddle
