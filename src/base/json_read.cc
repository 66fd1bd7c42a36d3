#include "base/json_read.h"

#include <nlohmann/json.hpp>

namespace heddle {

std::string json_text(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace heddle
