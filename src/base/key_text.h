// Keys that are made of several texts: each part has its length before it, so that two different lists of parts never
// give one key, whatever characters somebody writes into a part. Where the number of parts varies, it is a part too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

void append_part(std::string& key, std::string_view part);
void append_part(std::string& key, int64_t part);
inline void append_part(std::string& key, size_t part) {
  append_part(key, static_cast<int64_t>(part));
}
// How many there are, and each.
template <typename Texts>
void append_parts(std::string& key, const Texts& parts) {
  append_part(key, parts.size());
  for (const std::string& part : parts) append_part(key, std::string_view(part));
}

}  // namespace heddle
