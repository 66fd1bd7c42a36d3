// Texts inside objects that users wrote.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace heddle::cli {

// By JSON pointer, such as "/metadata/name"; empty where there is none or something else. Json: of nlohmann's.
template <typename Json>
std::string text_at(const Json& object, const char* pointer) {
  const typename Json::json_pointer path(pointer);
  return object.contains(path) && object.at(path).is_string() ? object.at(path).template get<std::string>()
                                                              : std::string();
}

}  // namespace heddle::cli
