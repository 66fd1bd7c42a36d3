// YAML as users write manifests, made into JSON texts. yaml-cpp is behind this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace heddle::cli {

// One JSON text a document; empty documents are left out. JSON is YAML too. Errors: kInvalidArgument with line and
// column; also for aliases that would blow up (more than max_values in a document) and for more than 64 levels.
Result<std::vector<std::string>> yaml_to_json(const std::string& text, int64_t max_values = 1'000'000);

}  // namespace heddle::cli
