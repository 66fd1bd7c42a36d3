// Reading JSON that others wrote.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace heddle {

// A text of the object; empty when it is no object, has no such field, or has something else there.
std::string json_text(const nlohmann::json& object, const char* name);

}  // namespace heddle
