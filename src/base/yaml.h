// What every reader of YAML asks first. yaml-cpp is behind this; a library of its own, heddle::yaml, so that only those
// who read YAML link it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

struct YamlTrouble {
  int64_t line = 0;  // from 1, as is the column
  int64_t column = 0;
  std::string what;
};

// Nothing when the text is a row of YAML documents; then YAML::Load and YAML::LoadAll end, which yaml-cpp 0.7 alone
// does not promise. Aliases are not followed: a small text may still mean billions of values. Never throws. Cost: one
// pass over the text without building nodes.
std::optional<YamlTrouble> yaml_trouble(const std::string& text);

}  // namespace heddle
