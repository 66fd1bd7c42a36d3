// YAML as users write manifests, made into JSON texts. yaml-cpp is behind this.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace heddle::cli {

// One JSON text a document; empty documents are left out. JSON is YAML too. Errors: kInvalidArgument with line and
// column; also for aliases that would blow up and for more than 64 levels.
Result<std::vector<std::string>> yaml_to_json(const std::string& text);

}  // namespace heddle::cli
